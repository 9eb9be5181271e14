//===- Parallel.h - building OpenMP loops -----------------------*- C++ -*-===//

#ifndef BUDDY_TRANSFORMS_PARALLEL_H
#define BUDDY_TRANSFORMS_PARALLEL_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace buddy {

/// Builds a parallel loop nest with a static schedule over
/// `lowerBounds[i] <= iv[i] < upperBounds[i]` by `steps[i]` (index values),
/// with `buddy.num_threads %work` threads. `body` builds the iteration's ops at
/// the builder's insertion point; what it allocates on the stack is freed at
/// the iteration's end. The builder stands after the loop on return.
void createParallelLoop(
    mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange lowerBounds,
    mlir::ValueRange upperBounds, mlir::ValueRange steps, mlir::Value work,
    llvm::function_ref<void(mlir::OpBuilder &, mlir::Location,
                            mlir::ValueRange)>
        body);

} // namespace buddy

#endif // BUDDY_TRANSFORMS_PARALLEL_H
