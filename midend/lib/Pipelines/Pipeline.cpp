//===- Pipeline.cpp - the one pipeline ------------------------------------===//
//
// Read top to bottom: this is the order of everything. The comments say why
// each step stands where it stands.
//
//===----------------------------------------------------------------------===//

#include "buddy/Pipelines/Pipeline.h"

#include "buddy/Transforms/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/Dialect/Tosa/Transforms/Passes.h"
#include "mlir/Dialect/Vector/Transforms/Passes.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace buddy;

static constexpr StringLiteral kPhaseNames[] = {"import", "graph", "kernel",
                                                "llvm"};

static constexpr StringLiteral kOptionNames =
    "target, stop-after, start-from, dump-phases-to, activations";

llvm::StringRef buddy::phaseName(Phase phase) {
  return kPhaseNames[static_cast<unsigned>(phase)];
}

std::optional<Phase> buddy::parsePhase(llvm::StringRef name) {
  for (unsigned i = 0; i < std::size(kPhaseNames); ++i)
    if (name == kPhaseNames[i])
      return static_cast<Phase>(i);
  return std::nullopt;
}

static void cleanUp(OpPassManager &manager) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

/// On tensors: whole ops become loops of work worth fusing.
static void buildGraphPhase(OpPassManager &manager, Activations activations) {
  auto functions = [&]() -> OpPassManager & {
    return manager.nest<func::FuncOp>();
  };
  // Equal constants and sizes must be one value before layers are compared.
  cleanUp(functions());
  // First of all, so that all later work is done once a layer.
  manager.addPass(createOutlineLayers());
  functions().addPass(createDecomposeOps());
  // What the importer wrote in TOSA joins what it wrote in linalg.
  functions().addPass(tosa::createTosaMakeBroadcastablePass());
  functions().addPass(tosa::createTosaToLinalgNamed());
  functions().addPass(tosa::createTosaToLinalg());
  functions().addPass(createTosaToArithPass());
  functions().addPass(createTosaToTensorPass());
  cleanUp(functions());
  functions().addPass(createLowerConvolutions());
  // Before generalization, which would hide contractions behind transposes.
  functions().addPass(createFoldTransposes());
  functions().addPass(createFuseElementwise());
  cleanUp(functions());
  // Where products stand with their final operands; rows that several products
  // share are quantised once.
  PackWeightsOptions packing;
  packing.activations = activations;
  manager.addPass(createPackWeights(packing));
  cleanUp(functions());
  functions().addPass(createChooseSchedule());
}

/// On buffers: where everything lies, then how each op is computed.
static void buildKernelPhase(OpPassManager &manager) {
  auto functions = [&]() -> OpPassManager & {
    return manager.nest<func::FuncOp>();
  };
  manager.addPass(createBufferize());
  manager.addPass(bufferization::createDropEquivalentBufferResultsPass());
  cleanUp(functions());
  manager.addPass(createSpecializeArguments());
  functions().addPass(memref::createResolveRankedShapeTypeResultDimsPass());
  cleanUp(functions());
  // While copies and calls are still ops of their own.
  manager.addPass(createVerifyNoCopies());
  functions().addPass(createLowerForalls());
  // Makes contractions and loops for the two that follow.
  functions().addPass(createLowerAttention());
  functions().addPass(createLowerQuantized());
  functions().addPass(createLowerContractions());
  functions().addPass(createFuseRows());
  functions().addPass(createLowerLoops());
  cleanUp(functions());
  functions().addPass(createExpandMath());
  // While buffers are apart: in the workspace, all would be one.
  functions().addPass(createMergeRegions());
  // After the generators, which allocate their packing buffers.
  manager.addPass(createPlanMemory());
  cleanUp(functions());
}

/// Down to the LLVM dialect.
static void buildLLVMPhase(OpPassManager &manager) {
  auto functions = [&]() -> OpPassManager & {
    return manager.nest<func::FuncOp>();
  };
  functions().addPass(createConvertVectorToSCFPass());
  functions().addPass(createConvertLinalgToLoopsPass());
  functions().addPass(createExpandBools());
  manager.addPass(createEmitEntries());
  // Loops that no pass of ours made parallel (a user's scf.parallel).
  functions().addPass(createForallToParallelLoopPass());
  manager.addPass(createConvertSCFToOpenMPPass());
  manager.addPass(createShareLoops());
  manager.addPass(createLowerCalls());
  // Without this an alloca scope with one block is left inside a multi-block
  // region, and convert-scf-to-cf fails.
  cleanUp(functions());
  // Function by function, as far as it goes: they are done in parallel.
  functions().addPass(createSCFToControlFlowPass());
  functions().addPass(createExpandReshapes());
  functions().addPass(memref::createExpandStridedMetadataPass());
  functions().addPass(createLowerAffinePass());
  // bf16 arithmetic and math in f32; then no bf16 but as operands of products,
  // since LLVM rounds to it by a routine that is not in every C library.
  functions().addPass(math::createMathExtendToSupportedTypes());
  arith::ArithEmulateUnsupportedFloatsOptions emulate;
  emulate.sourceTypeStrs = {"bf16"};
  functions().addPass(arith::createArithEmulateUnsupportedFloats(emulate));
  manager.addPass(createExpandBFloat16());
  functions().addPass(arith::createArithExpandOpsPass());
  manager.addPass(createCallMath());
  functions().addPass(createConvertMathToLLVMPass());
  manager.addPass(createConvertMathToLibmPass());
  ConvertVectorToLLVMPassOptions vectors;
  vectors.x86Vector = true;
  functions().addPass(createConvertVectorToLLVMPass(vectors));
  manager.addPass(createConvertToLLVMPass());
  manager.addPass(createConvertOpenMPToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  cleanUp(manager.nest<LLVM::LLVMFuncOp>());
}

namespace {
/// Writes the module to a numbered file. Not declared in Passes.td: it is no
/// transformation, only a step of this pipeline.
struct DumpPhase : PassWrapper<DumpPhase, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DumpPhase)
  DumpPhase(std::string directory, Phase phase)
      : directory(std::move(directory)), phase(phase) {}

  StringRef getArgument() const override { return "buddy-dump-phase"; }

  void runOnOperation() override {
    SmallString<128> path(directory);
    if (std::error_code ec = llvm::sys::fs::create_directories(path)) {
      emitError(getOperation().getLoc(), "cannot create ")
          << path << ": " << ec.message();
      return signalPassFailure();
    }
    llvm::sys::path::append(path, llvm::formatv("{0}-{1}.mlir",
                                                static_cast<unsigned>(phase),
                                                phaseName(phase))
                                      .str());
    std::string error;
    auto file = openOutputFile(path, &error);
    if (!file) {
      emitError(getOperation().getLoc(), error);
      return signalPassFailure();
    }
    OpPrintingFlags flags;
    flags.enableDebugInfo(true, false);
    getOperation().print(file->os(), flags);
    file->os() << "\n";
    file->keep();
    markAllAnalysesPreserved();
  }

  std::string directory;
  Phase phase;
};

/// Records the last phase that ran on the module, or refuses a module that is
/// not what the first phase of a run takes: each phase counts on what the ones
/// before it left. A module without a record has been through none.
struct MarkPhase : PassWrapper<MarkPhase, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MarkPhase)
  MarkPhase(Phase phase, bool check) : phase(phase), check(check) {}

  StringRef getArgument() const override { return "buddy-mark-phase"; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    markAllAnalysesPreserved();
    if (!check) {
      module->setAttr(kPhaseAttr,
                      StringAttr::get(&getContext(), phaseName(phase)));
      return;
    }
    auto record = module->getAttrOfType<StringAttr>(kPhaseAttr);
    std::optional<Phase> last =
        record ? parsePhase(record.getValue()) : std::nullopt;
    unsigned next = last ? static_cast<unsigned>(*last) + 1 : 0;
    // Verifying an import once more does no harm.
    if (next == static_cast<unsigned>(phase) ||
        (phase == Phase::Import && last == Phase::Import))
      return;
    // One line: the whole module after it would tell nobody anything.
    std::string has =
        record ? ("a module after phase '" + record.getValue() + "'").str()
               : "a module that no phase has run on";
    std::string hint =
        next < std::size(kPhaseNames)
            ? ("; start-from=" + kPhaseNames[next] + " takes it").str()
            : "; it is ready for buddy-translate or buddy-llc";
    emitError(module.getLoc()) << "phase '" << phaseName(phase)
                               << "' cannot start from " << has << hint;
    signalPassFailure();
  }

  Phase phase;
  bool check;
};
} // namespace

void buddy::buildPipeline(OpPassManager &manager,
                          const PipelineOptions &options) {
  manager.addPass(std::make_unique<MarkPhase>(options.startFrom, true));
  SetTargetOptions target;
  target.target = options.target;
  // From the graph phase on a module is made for its machine.
  target.keep = options.startFrom > Phase::Graph;
  manager.addPass(createSetTarget(target));
  auto run = [&](Phase phase, llvm::function_ref<void(OpPassManager &)> build) {
    if (phase < options.startFrom || phase > options.stopAfter)
      return;
    build(manager);
    manager.addPass(std::make_unique<MarkPhase>(phase, false));
    if (!options.dumpDirectory.empty())
      manager.addPass(
          std::make_unique<DumpPhase>(options.dumpDirectory, phase));
  };
  run(Phase::Import, [](OpPassManager &m) { m.addPass(createVerifyImport()); });
  run(Phase::Graph,
      [&](OpPassManager &m) { buildGraphPhase(m, options.activations); });
  run(Phase::Kernel, buildKernelPhase);
  run(Phase::LLVM, buildLLVMPhase);
}

llvm::Expected<PipelineOptions>
buddy::parsePipelineOptions(llvm::StringRef text) {
  PipelineOptions options;
  SmallVector<StringRef> parts;
  text.split(parts, ' ', -1, /*KeepEmpty=*/false);
  auto error = [](const Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  for (StringRef part : parts) {
    auto [key, value] = part.split('=');
    if (key == "target") {
      options.target = value.str();
    } else if (key == "dump-phases-to") {
      options.dumpDirectory = value.str();
    } else if (key == "stop-after" || key == "start-from") {
      std::optional<Phase> phase = parsePhase(value);
      if (!phase)
        return error("unknown phase '" + value +
                     "'; phases: import, graph, kernel, llvm");
      (key == "stop-after" ? options.stopAfter : options.startFrom) = *phase;
    } else if (key == "activations") {
      if (value != "int8" && value != "f32")
        return error("unknown activations '" + value + "'; int8 or f32");
      options.activations =
          value == "f32" ? Activations::F32 : Activations::Int8;
    } else {
      return error("unknown pipeline option '" + key +
                   "'; options: " + kOptionNames);
    }
  }
  if (options.startFrom > options.stopAfter)
    return error("start-from=" + phaseName(options.startFrom) +
                 " comes after stop-after=" + phaseName(options.stopAfter));
  return options;
}

llvm::Error buddy::runPipeline(ModuleOp module, const PipelineOptions &options,
                               llvm::StringRef reproducer) {
  PassManager manager(module->getContext());
  if (!reproducer.empty())
    manager.enableCrashReproducerGeneration(reproducer,
                                            /*genLocalReproducer=*/false);
  buildPipeline(manager, options);
  if (failed(manager.run(module)))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the pass pipeline failed");
  return llvm::Error::success();
}

namespace {
struct CommandLineOptions : PassPipelineOptions<CommandLineOptions> {
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc("Target by name (native, x86-64-v4, "
                     "rv64gcv, ...)"),
      llvm::cl::init("")};
  Option<std::string> startFrom{*this, "start-from",
                                llvm::cl::desc("First phase to run"),
                                llvm::cl::init("import")};
  Option<std::string> stopAfter{*this, "stop-after",
                                llvm::cl::desc("Last phase to run"),
                                llvm::cl::init("llvm")};
  Option<std::string> dumpDirectory{
      *this, "dump-phases-to",
      llvm::cl::desc("Directory for the module after each phase"),
      llvm::cl::init("")};
  Option<std::string> activations{
      *this, "activations",
      llvm::cl::desc("Rows that meet quantised weights: int8 or f32"),
      llvm::cl::init("int8")};
};
} // namespace

/// A slip in the options is one line that says what there is, no crash; the
/// caller then leaves.
static LogicalResult addPipeline(OpPassManager &manager, StringRef text) {
  auto fail = [](const Twine &message) {
    llvm::WithColor::error(llvm::errs(), "buddy-pipeline") << message << "\n";
    return failure();
  };
  CommandLineOptions command;
  std::string fault;
  llvm::raw_string_ostream stream(fault);
  if (failed(command.parseFromString(text, stream))) {
    // Upstream names its parser in front of the fault.
    StringRef what = StringRef(fault).rtrim();
    what.consume_front("<Pass-Options-Parser>: ");
    return fail(what + "; options: " + kOptionNames);
  }
  std::string phases = "start-from=" + command.startFrom +
                       " stop-after=" + command.stopAfter +
                       " activations=" + command.activations;
  auto parsed = parsePipelineOptions(phases);
  if (!parsed)
    return fail(llvm::toString(parsed.takeError()));
  PipelineOptions options = *parsed;
  options.target = command.target;
  options.dumpDirectory = command.dumpDirectory;
  buildPipeline(manager, options);
  return success();
}

void buddy::registerBuddyPipeline() {
  static bool once = [] {
    registerPassPipeline(
        "buddy-pipeline",
        "Imported module to LLVM dialect: phases import, graph, kernel, llvm",
        [](OpPassManager &manager, StringRef text,
           llvm::function_ref<LogicalResult(const Twine &)>) {
          return addPipeline(manager, text);
        },
        [](llvm::function_ref<void(const mlir::detail::PassOptions &)> handle) {
          handle(CommandLineOptions());
        });
    return true;
  }();
  (void)once;
}

void buddy::registerAllDialects(DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllToLLVMIRTranslations(registry);
  registerBuddyDialect(registry);
  registerBufferizationModels(registry);
}
