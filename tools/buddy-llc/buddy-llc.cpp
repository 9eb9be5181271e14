//===- buddy-llc.cpp - MLIR or LLVM IR to assembly, object or library -----===//
//
// Enters: a module of the LLVM dialect (text or bytecode) or LLVM IR (text or
// bitcode). Leaves: assembly, an object, or with --shared a shared library.
// Flags are llc's where llc has them. Without -mtriple and -mcpu the module's
// own `buddy.target` is used, and without one, the host.
//
//===----------------------------------------------------------------------===//

#include "buddy/CodeGen/CodeGen.h"
#include "buddy/Dialect/Buddy.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/MC/MCTargetOptionsCommandFlags.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;

static cl::OptionCategory category("buddy-llc options");
static cl::opt<std::string> input(cl::Positional, cl::desc("<input file>"),
                                  cl::init("-"), cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("Output file"),
                                   cl::value_desc("file"), cl::init("-"),
                                   cl::cat(category));
static cl::opt<std::string> triple("mtriple", cl::desc("Target triple"),
                                   cl::cat(category));
static cl::opt<std::string> cpu("mcpu",
                                cl::desc("Target CPU; native is the host's"),
                                cl::cat(category));
static cl::list<std::string> attributes("mattr", cl::CommaSeparated,
                                        cl::desc("Target features (+a,-b)"),
                                        cl::cat(category));
static cl::opt<std::string>
    targetName("target",
               cl::desc("Named target (native, x86-64-v4, rv64gcv, ...)"),
               cl::cat(category));
static cl::opt<unsigned> optLevel("O", cl::Prefix, cl::init(3),
                                  cl::desc("Optimization level 0 to 3"),
                                  cl::cat(category));
static cl::opt<bool> shared("shared", cl::desc("Link a shared library"),
                            cl::cat(category));
static cl::list<std::string>
    rpaths("rpath", cl::desc("Run path of the library"), cl::cat(category));
static cl::opt<buddy::FileKind> fileType(
    "filetype", cl::init(buddy::FileKind::Object),
    cl::desc("Kind of file to write"), cl::cat(category),
    cl::values(clEnumValN(buddy::FileKind::Assembly, "asm", "Assembly"),
               clEnumValN(buddy::FileKind::Object, "obj", "Object"),
               clEnumValN(buddy::FileKind::LLVMIR, "llvm", "LLVM IR")));

static ExitOnError exitOnError("buddy-llc: error: ");

static Error makeError(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

/// LLVM IR is told from MLIR by trying: bitcode has a magic, and in text only
/// LLVM IR has `define`, `declare`, `source_filename` or `target` at a line's
/// start.
static bool isLLVMIR(StringRef name, StringRef text) {
  if (name.ends_with(".ll") || name.ends_with(".bc"))
    return true;
  if (text.starts_with("BC\xC0\xDE"))
    return true;
  if (name.ends_with(".mlir") || text.starts_with("ML\xEFR"))
    return false;
  return text.starts_with("; ModuleID") || text.contains("\ntarget triple") ||
         text.contains("\nsource_filename") || text.contains("\ndefine ") ||
         text.starts_with("define ");
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv,
                              "MLIR or LLVM IR to native code\n\n"
                              "  buddy-llc model.mlir --shared -o model.so\n");
  if (shared && output == "-")
    exitOnError(makeError("--shared needs an output file (-o FILE)"));
  if (optLevel > 3)
    exitOnError(makeError("-O takes 0, 1, 2 or 3"));

  auto buffer = MemoryBuffer::getFileOrSTDIN(input);
  if (!buffer)
    exitOnError(createFileError(input, buffer.getError()));

  LLVMContext context;
  std::unique_ptr<Module> module;
  Expected<buddy::TargetInfo> target = buddy::getTargetInfo(
      targetName.empty() ? StringRef("native") : StringRef(targetName));
  if (!target)
    exitOnError(target.takeError());

  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllToLLVMIRTranslations(registry);
  buddy::registerBuddyDialect(registry);
  mlir::MLIRContext mlirContext(registry);
  if (isLLVMIR(input, (*buffer)->getBuffer())) {
    SMDiagnostic diagnostic;
    module = parseIR((*buffer)->getMemBufferRef(), diagnostic, context);
    if (!module) {
      diagnostic.print("buddy-llc", errs());
      return 1;
    }
    if (triple.empty() && targetName.empty() && cpu.empty() &&
        !module->getTargetTriple().str().empty() &&
        module->getTargetTriple().getArch() !=
            Triple(target->triple).getArch()) {
      target->triple = module->getTargetTriple().str();
      target->cpu = target->features = "";
    }
  } else {
    SourceMgr sources;
    sources.AddNewSourceBuffer(std::move(*buffer), SMLoc());
    auto op = mlir::parseSourceFile<mlir::ModuleOp>(sources, &mlirContext);
    if (!op)
      return 1;
    if (targetName.empty())
      target = exitOnError(buddy::getModuleTarget(*op));
    module = exitOnError(buddy::translateToLLVMIR(*op, context));
  }
  if (!triple.empty() && triple != target->triple) {
    target->triple = triple;
    target->cpu = target->features = target->abi = "";
    target->openmp = Triple(triple).getArch() ==
                             Triple(sys::getDefaultTargetTriple()).getArch()
                         ? "omp"
                         : "gomp";
  }
  if (cpu == "native") {
    buddy::TargetInfo host = exitOnError(buddy::getTargetInfo("native"));
    target->cpu = host.cpu;
    target->features = host.features;
  } else if (!cpu.empty()) {
    target->cpu = cpu;
    target->features.clear();
  }
  for (const std::string &feature : attributes)
    target->features += (target->features.empty() ? "" : ",") + feature;
  // LLVM itself registers -target-abi.
  if (StringRef abi = mc::getABIName(); !abi.empty())
    target->abi = abi.str();

  auto machine = exitOnError(buddy::createTargetMachine(*target, optLevel));
  buddy::optimizeModule(*module, *machine, optLevel);

  std::string file = output;
  SmallString<128> object;
  if (shared) {
    exitOnError(
        errorCodeToError(sys::fs::createTemporaryFile("buddy", "o", object)));
    file = object.str().str();
  }
  {
    std::error_code ec;
    ToolOutputFile out(file, ec, sys::fs::OF_None);
    if (ec)
      exitOnError(createFileError(file, ec));
    SmallVector<char, 0> bytes;
    raw_svector_ostream os(bytes);
    exitOnError(buddy::emitModule(
        *module, *machine, shared ? buddy::FileKind::Object : fileType, os));
    out.os().write(bytes.data(), bytes.size());
    out.os().close();
    if (out.os().has_error()) {
      ec = out.os().error();
      out.os().clear_error();
      exitOnError(createFileError(file, ec));
    }
    out.keep();
  }
  if (shared) {
    buddy::LinkOptions options;
    options.rpaths = rpaths;
    Error error = buddy::linkSharedLibrary({file}, output, *target, options);
    sys::fs::remove(file);
    exitOnError(std::move(error));
  }
  return 0;
}
