//===- Parallel.h - building OpenMP loops -----------------------*- C++ -*-===//

#ifndef BUDDY_TRANSFORMS_PARALLEL_H
#define BUDDY_TRANSFORMS_PARALLEL_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace buddy {

/// Builds a parallel loop nest with a static schedule over
/// `lowerBounds[i] <= iv[i] < upperBounds[i]` by `steps[i]` (index values),
/// with `buddy.num_threads %work` threads. `body` builds the iteration's ops at
/// the builder's insertion point; what it allocates on the stack is freed at
/// the iteration's end. The builder stands after the loop on return.
///
/// Inside of a parallel region the loops are sequential: its threads have tasks
/// already, and regions in regions would ask for more threads than there are.
void createParallelLoop(
    mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange lowerBounds,
    mlir::ValueRange upperBounds, mlir::ValueRange steps, mlir::Value work,
    llvm::function_ref<void(mlir::OpBuilder &, mlir::Location,
                            mlir::ValueRange)>
        body);

/// Allocates a buffer of each thread, above the loop over tasks that the
/// builder stands in; buddy-plan-memory places it. `sizes` are the dynamic
/// ones, defined outside of the parallel region.
mlir::Value createThreadBuffer(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::MemRefType type,
                               mlir::ValueRange sizes = {});

} // namespace buddy

#endif // BUDDY_TRANSFORMS_PARALLEL_H
