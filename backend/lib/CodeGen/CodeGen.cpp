//===- CodeGen.cpp - LLVM dialect to objects ------------------------------===//

#include "buddy/CodeGen/CodeGen.h"

#include "buddy/Dialect/Buddy.h"
#include "mlir/IR/Operation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Target/LLVMIR/LLVMTranslationInterface.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/SplitModule.h"

#include <thread>

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

/// The first op that has no translation, or null. Upstream's error for one
/// names an interface, and no way on.
static mlir::Operation *findUntranslatable(mlir::Operation *module) {
  mlir::Operation *found = nullptr;
  module->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
    mlir::Dialect *dialect = op->getDialect();
    if (dialect &&
        dialect
            ->getRegisteredInterface<mlir::LLVMTranslationDialectInterface>())
      return mlir::WalkResult::advance();
    found = op;
    return mlir::WalkResult::interrupt();
  });
  return found;
}

Expected<std::unique_ptr<Module>>
buddy::translateToLLVMIR(mlir::Operation *op, LLVMContext &context) {
  if (mlir::Operation *foreign = findUntranslatable(op)) {
    std::string where;
    raw_string_ostream stream(where);
    foreign->getLoc().print(stream);
    return makeError(where + ": '" + foreign->getName().getStringRef() +
                     "' is not of the LLVM dialect; "
                     "buddy-opt --buddy-pipeline lowers a module to it");
  }
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
                           unsigned optLevel,
                           std::optional<OptimizerStage> stage) {
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
  auto build = [&] {
    const ThinOrFullLTOPhase none = ThinOrFullLTOPhase::None;
    if (optLevel == 0)
      return builder.buildO0DefaultPipeline(level);
    if (!stage)
      return builder.buildPerModuleDefaultPipeline(level);
    if (*stage == OptimizerStage::Simplification)
      return builder.buildModuleSimplificationPipeline(level, none);
    return builder.buildModuleOptimizationPipeline(level, none);
  };
  build().run(module, mam);
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

/// Instructions from which on a module is worth the copies that two threads
/// need: a BERT's 24 thousand take two seconds to become code.
static constexpr unsigned kPartSize = 4000;

/// Makes code of each part of the module, in a context of its own, by a thread.
static Error
emitParts(Module &module, ArrayRef<raw_pwrite_stream *> streams,
          function_ref<Error(Module &, raw_pwrite_stream &)> emit) {
  SmallVector<SmallString<0>> bitcodes;
  SplitModule(module, streams.size(), [&](std::unique_ptr<Module> part) {
    raw_svector_ostream os(bitcodes.emplace_back());
    WriteBitcodeToFile(*part, os);
  });
  std::vector<Error> errors;
  for (size_t i = 0; i < bitcodes.size(); ++i)
    errors.push_back(Error::success());
  auto emitPart = [&](size_t i) {
    LLVMContext context;
    auto part = parseBitcodeFile(MemoryBufferRef(bitcodes[i], "part"), context);
    errors[i] = joinErrors(std::move(errors[i]),
                           part ? emit(**part, *streams[i]) : part.takeError());
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < bitcodes.size(); ++i)
    threads.emplace_back(emitPart, i);
  emitPart(0);
  for (std::thread &thread : threads)
    thread.join();
  Error all = Error::success();
  for (Error &error : errors)
    all = joinErrors(std::move(all), std::move(error));
  return all;
}

/// Optimises the module and writes it to one or two object files beside
/// `output`, whose names it appends, also of those to remove after an error.
static Error emitObjects(Module &module, const buddy::TargetInfo &target,
                         unsigned optLevel, StringRef output, bool split,
                         SmallVectorImpl<std::string> &objects) {
  using buddy::OptimizerStage;
  unsigned parts = 1;
  std::optional<OptimizerStage> left;
  if (split && optLevel > 0 && llvm_is_multithreaded() &&
      module.getInstructionCount() > kPartSize) {
    // What is called by name is inlined here; functions that threads run are
    // called by address. So nothing is left to do on the module as a whole, and
    // its parts can be finished at once.
    auto machine = createTargetMachine(target, optLevel);
    if (!machine)
      return machine.takeError();
    buddy::optimizeModule(module, **machine, optLevel,
                          OptimizerStage::Simplification);
    left = OptimizerStage::Optimization;
    parts = 2;
  }
  SmallVector<std::unique_ptr<raw_fd_ostream>> files;
  SmallVector<raw_pwrite_stream *> streams;
  for (unsigned i = 0; i < parts; ++i) {
    SmallString<128> object;
    int fd;
    if (std::error_code ec =
            sys::fs::createUniqueFile(output + ".%%%%%%%%.o", fd, object))
      return createFileError(output, ec);
    objects.push_back(object.str().str());
    files.push_back(std::make_unique<raw_fd_ostream>(fd, /*shouldClose=*/true));
    streams.push_back(files.back().get());
  }
  auto emit = [&](Module &part, raw_pwrite_stream &os) -> Error {
    auto machine = createTargetMachine(target, optLevel);
    if (!machine)
      return machine.takeError();
    buddy::optimizeModule(part, **machine, optLevel, left);
    return buddy::emitModule(part, **machine, buddy::FileKind::Object, os);
  };
  Error error = Error::success();
  if (parts == 1)
    error = emit(module, *streams[0]);
  else
    error = emitParts(module, streams, emit);
  for (auto [file, object] : llvm::zip_equal(files, objects)) {
    file->close();
    if (file->has_error()) {
      if (!error)
        error = createFileError(object, file->error());
      file->clear_error();
    }
  }
  return error;
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
  SmallVector<std::string> objects;
  Error error =
      emitObjects(**module, target, optLevel, output, shared, objects);
  if (!error && shared)
    error = linkSharedLibrary(objects, output, target, options);
  else if (!error)
    if (std::error_code ec = sys::fs::rename(objects[0], output))
      error = createFileError(output, ec);
  for (StringRef object : objects)
    sys::fs::remove(object);
  return error;
}
