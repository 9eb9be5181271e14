//===- CodeGen.cpp - LLVM dialect to objects ------------------------------===//

#include "buddy/CodeGen/CodeGen.h"

#include "buddy/Dialect/Buddy.h"
#include "mlir/IR/Operation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

static Error makeError(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

void buddy::initializeTargets() {
  static bool once = [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
    InitializeAllAsmParsers();
    return true;
  }();
  (void)once;
}

Expected<std::unique_ptr<Module>>
buddy::translateToLLVMIR(mlir::Operation *op, LLVMContext &context) {
  auto module = mlir::translateModuleToLLVMIR(op, context);
  if (!module)
    return makeError("translation from MLIR to LLVM IR failed");
  return module;
}

Expected<buddy::TargetInfo> buddy::getModuleTarget(mlir::Operation *module) {
  auto attr = module->getAttrOfType<TargetAttr>(kTargetAttr);
  return getTargetInfo(attr ? attr.getName() : "native");
}

static Error checkCpu(const Target &target, const Triple &triple,
                      const buddy::TargetInfo &info) {
  std::unique_ptr<MCSubtargetInfo> known(
      target.createMCSubtargetInfo(triple, "", ""));
  if (!known)
    return makeError("no code generator for " + triple.str());
  if (!info.cpu.empty() && !known->isCPUStringValid(info.cpu))
    return makeError("unknown CPU '" + info.cpu + "' for " + triple.str() +
                     "; llc -mcpu=help lists them");
  SmallVector<StringRef> features;
  StringRef(info.features).split(features, ',', -1, /*KeepEmpty=*/false);
  for (StringRef feature : features) {
    StringRef name = feature.drop_front();
    if ((feature[0] != '+' && feature[0] != '-') ||
        llvm::none_of(
            known->getAllProcessorFeatures(),
            [&](const SubtargetFeatureKV &f) { return name == f.Key; }))
      return makeError("unknown feature '" + feature + "' for " + triple.str() +
                       "; expected +NAME or -NAME, llc -mattr=help lists them");
  }
  return Error::success();
}

Expected<std::unique_ptr<TargetMachine>>
buddy::createTargetMachine(const TargetInfo &info, unsigned optLevel) {
  initializeTargets();
  std::string error;
  Triple triple(info.triple);
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return makeError(error);
  if (Error unknown = checkCpu(*target, triple, info))
    return std::move(unknown);
  // Without any optimisation LLVM 22 assigns no registers to tiles that loops
  // carry, and crashes.
  if (info.hasBFloat16Tiles() || info.hasByteTiles())
    optLevel = std::max(optLevel, 1u);
  TargetOptions options;
  options.MCOptions.ABIName = info.abi;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, info.cpu, info.features, options, Reloc::PIC_, std::nullopt,
      static_cast<CodeGenOptLevel>(std::min(optLevel, 3u))));
  if (!machine)
    return makeError("no code generator for " + triple.str());
  return machine;
}

void buddy::optimizeModule(Module &module, TargetMachine &machine,
                           unsigned optLevel) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  // The optimiser's cost models read the machine from the functions.
  for (Function &f : module) {
    if (f.isDeclaration())
      continue;
    f.addFnAttr("target-cpu", machine.getTargetCPU());
    f.addFnAttr("target-features", machine.getTargetFeatureString());
    if (machine.getTargetTriple().isX86())
      f.addFnAttr("prefer-vector-width", "512");
    // Nothing reads floating-point exception flags; with trapping semantics
    // selects in vectorized loops would not fold.
    f.addFnAttr("no-trapping-math", "true");
  }
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving =
      tuning.LoopUnrolling = optLevel > 1;
  PassBuilder builder(&machine, tuning);
  LoopAnalysisManager lam;
  FunctionAnalysisManager fam;
  CGSCCAnalysisManager cam;
  ModuleAnalysisManager mam;
  builder.registerModuleAnalyses(mam);
  builder.registerCGSCCAnalyses(cam);
  builder.registerFunctionAnalyses(fam);
  builder.registerLoopAnalyses(lam);
  builder.crossRegisterProxies(lam, fam, cam, mam);
  static const OptimizationLevel levels[] = {
      OptimizationLevel::O0, OptimizationLevel::O1, OptimizationLevel::O2,
      OptimizationLevel::O3};
  OptimizationLevel level = levels[std::min(optLevel, 3u)];
  if (optLevel == 0)
    builder.buildO0DefaultPipeline(level).run(module, mam);
  else
    builder.buildPerModuleDefaultPipeline(level).run(module, mam);
}

Error buddy::emitModule(Module &module, TargetMachine &machine, FileKind kind,
                        raw_pwrite_stream &os) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  if (kind == FileKind::LLVMIR) {
    module.print(os, nullptr);
    return Error::success();
  }
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr,
                                  kind == FileKind::Assembly
                                      ? CodeGenFileType::AssemblyFile
                                      : CodeGenFileType::ObjectFile))
    return makeError("the target cannot emit this kind of file");
  passes.run(module);
  return Error::success();
}

Error buddy::compileModule(mlir::Operation *op, const TargetInfo &target,
                           unsigned optLevel, bool shared, StringRef output,
                           const LinkOptions &options) {
  if (Error error = checkReplaceable(output))
    return error;
  LLVMContext context;
  auto module = translateToLLVMIR(op, context);
  if (!module)
    return module.takeError();
  auto machine = createTargetMachine(target, optLevel);
  if (!machine)
    return machine.takeError();
  optimizeModule(**module, **machine, optLevel);
  SmallString<128> object;
  int fd;
  if (std::error_code ec =
          sys::fs::createUniqueFile(output + ".%%%%%%%%.o", fd, object))
    return createFileError(output, ec);
  Error error = Error::success();
  {
    raw_fd_ostream os(fd, /*shouldClose=*/true);
    error = emitModule(**module, **machine, FileKind::Object, os);
    os.close();
    if (!error && os.has_error()) {
      error = createFileError(object, os.error());
      os.clear_error();
    }
  }
  if (!error && shared)
    error = linkSharedLibrary({object.str().str()}, output, target, options);
  else if (!error)
    if (std::error_code ec = sys::fs::rename(object, output))
      error = createFileError(output, ec);
  sys::fs::remove(object);
  return error;
}
