//===- Pipeline.h - the one pipeline ----------------------------*- C++ -*-===//
//
// From an imported module (docs/architecture.md, section 2) to the LLVM
// dialect. Every entry point runs this one: buddy-opt, the Python bindings,
// bundles and tests.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_PIPELINES_PIPELINE_H
#define BUDDY_PIPELINES_PIPELINE_H

#include "buddy/Transforms/Activations.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace mlir {
class DialectRegistry;
class ModuleOp;
class OpPassManager;
class PassManager;
} // namespace mlir

namespace buddy {

/// The phases, in order. A phase's dump is the module after it.
enum class Phase { Import, Graph, Kernel, LLVM };

llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

struct PipelineOptions {
  std::string target; ///< Name known to TargetInfo; empty: as in the module.
  Phase startFrom = Phase::Import; ///< First phase to run.
  Phase stopAfter = Phase::LLVM;   ///< Last phase to run.
  /// What rows become where they meet quantised weights.
  Activations activations = Activations::Int8;
  std::string dumpDirectory; ///< Writes NN-phase.mlir after each phase, if set.
};

/// Parses "key=value key=value" as --buddy-pipeline takes it.
llvm::Expected<PipelineOptions> parsePipelineOptions(llvm::StringRef text);

/// Appends the passes to a manager of modules.
void buildPipeline(mlir::OpPassManager &manager,
                   const PipelineOptions &options);

/// Runs the pipeline on a module; diagnostics go to the context's handler. On
/// failure a reproducer is written to `reproducer`, if set.
llvm::Error runPipeline(mlir::ModuleOp module, const PipelineOptions &options,
                        llvm::StringRef reproducer = "");

/// Makes `buddy-pipeline` known to pass pipeline parsers. Idempotent.
void registerBuddyPipeline();

/// Registers all upstream dialects, extensions and translations, and ours.
void registerAllDialects(mlir::DialectRegistry &registry);

} // namespace buddy

#endif // BUDDY_PIPELINES_PIPELINE_H
