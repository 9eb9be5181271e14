//===- CodeGen.h - LLVM dialect to objects and libraries --------*- C++ -*-===//

#ifndef BUDDY_CODEGEN_CODEGEN_H
#define BUDDY_CODEGEN_CODEGEN_H

#include "buddy/Target/TargetInfo.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
class raw_pwrite_stream;
} // namespace llvm
namespace mlir {
class Operation;
} // namespace mlir

namespace buddy {

/// Registers the code generators of the supported targets. Idempotent.
void initializeTargets();

/// Translates a module of the LLVM dialect.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateToLLVMIR(mlir::Operation *module, llvm::LLVMContext &context);

/// The target a module was compiled for (its `buddy.target` attribute), or
/// `native` if it has none.
llvm::Expected<TargetInfo> getModuleTarget(mlir::Operation *module);

/// Position-independent code for the target; `optLevel` 0 to 3. An error names
/// a CPU or feature that LLVM does not know, which LLVM would ignore.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const TargetInfo &target, unsigned optLevel);

/// The halves of LLVM's default pipeline: what looks at the module as a whole
/// (inlining above all), and what then works on each function by itself
/// (unrolling and vectorization).
enum class OptimizerStage { Simplification, Optimization };

/// LLVM's default pipeline at `optLevel`, for the machine's own CPU; with
/// `stage`, that half of it.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine,
                    unsigned optLevel,
                    std::optional<OptimizerStage> stage = std::nullopt);

enum class FileKind { LLVMIR, Assembly, Object };

/// Writes the module in the form asked for.
llvm::Error emitModule(llvm::Module &module, llvm::TargetMachine &machine,
                       FileKind kind, llvm::raw_pwrite_stream &os);

struct LinkOptions {
  /// Directories that the library looks for its OpenMP runtime in, e.g.
  /// "$ORIGIN" in a bundle.
  std::vector<std::string> rpaths;
  std::vector<std::string> extraArguments;
  /// The file of a libgomp to link to instead of the target's runtime: a
  /// process that has it loaded, as PyTorch's has, then runs this library's
  /// regions on the threads of its own, which do not spin against each other.
  std::string gomp;
};

/// An error if `output` is a device, pipe or folder: to rename a finished file
/// over one would replace it.
llvm::Error checkReplaceable(llvm::StringRef output);

/// The files of the run-time libraries that `buddy.scalar_call` and
/// `buddy.library_call` need; built for this machine only.
std::vector<std::string> mathLibraries();

/// Links objects into a shared library that names its OpenMP runtime, the C
/// library and those of `mathLibraries` that it calls, and has no other
/// undefined symbol. Writes aside and renames. Without `rpaths` the last are
/// looked for where they were built.
llvm::Error linkSharedLibrary(llvm::ArrayRef<std::string> objects,
                              llvm::StringRef output, const TargetInfo &target,
                              const LinkOptions &options = {});

/// Translate, optimise, emit and link (if `shared`) in one go; `output` is
/// complete or absent.
llvm::Error compileModule(mlir::Operation *module, const TargetInfo &target,
                          unsigned optLevel, bool shared,
                          llvm::StringRef output,
                          const LinkOptions &options = {});

} // namespace buddy

#endif // BUDDY_CODEGEN_CODEGEN_H
