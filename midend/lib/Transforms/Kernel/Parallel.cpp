//===- Parallel.cpp - building OpenMP loops -------------------------------===//

#include "buddy/Transforms/Parallel.h"

#include "buddy/Transforms/Passes.h"

using namespace mlir;

/// The parallel region that the builder stands in, or null.
static omp::ParallelOp enclosingRegion(OpBuilder &builder) {
  Operation *parent = builder.getInsertionBlock()->getParentOp();
  if (auto parallel = dyn_cast<omp::ParallelOp>(parent))
    return parallel;
  return parent->getParentOfType<omp::ParallelOp>();
}

Value buddy::createThreadBuffer(OpBuilder &builder, Location loc,
                                MemRefType type, ValueRange sizes) {
  // Inside the loop over tasks it would be allocated in each iteration.
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(
      &enclosingRegion(builder).getRegion().front());
  // Constant sizes become stack allocations in buddy-plan-memory.
  return memref::AllocOp::create(builder, loc, type, sizes,
                                 builder.getI64IntegerAttr(64));
}

void buddy::createParallelLoop(
    OpBuilder &builder, Location loc, ValueRange lowerBounds,
    ValueRange upperBounds, ValueRange steps, Value work,
    llvm::function_ref<void(OpBuilder &, Location, ValueRange)> body) {
  OpBuilder::InsertionGuard guard(builder);
  if (enclosingRegion(builder)) {
    SmallVector<Value> ivs;
    for (auto [lower, upper, step] :
         llvm::zip(lowerBounds, upperBounds, steps)) {
      auto loop = scf::ForOp::create(builder, loc, lower, upper, step);
      ivs.push_back(loop.getInductionVar());
      builder.setInsertionPointToStart(loop.getBody());
    }
    return body(builder, loc, ivs);
  }
  Value threads =
      NumThreadsOp::create(builder, loc, builder.getI32Type(), work);
  omp::ParallelOperands parallelOperands;
  parallelOperands.numThreads = threads;
  auto parallel = omp::ParallelOp::create(builder, loc, parallelOperands);
  builder.createBlock(&parallel.getRegion());
  omp::WsloopOperands wsloopOperands;
  // The parallel region ends here too, with a barrier of its own.
  wsloopOperands.nowait = builder.getUnitAttr();
  auto wsloop = omp::WsloopOp::create(builder, loc, wsloopOperands);
  omp::TerminatorOp::create(builder, loc);
  builder.createBlock(&wsloop.getRegion());
  omp::LoopNestOperands nestOperands;
  llvm::append_range(nestOperands.loopLowerBounds, lowerBounds);
  llvm::append_range(nestOperands.loopUpperBounds, upperBounds);
  llvm::append_range(nestOperands.loopSteps, steps);
  if (lowerBounds.size() > 1)
    nestOperands.collapseNumLoops =
        builder.getI64IntegerAttr(lowerBounds.size());
  auto nest = omp::LoopNestOp::create(builder, loc, nestOperands);
  SmallVector<Type> types(lowerBounds.size(), builder.getIndexType());
  SmallVector<Location> locs(lowerBounds.size(), loc);
  Block *block = builder.createBlock(&nest.getRegion(), {}, types, locs);
  auto scope = memref::AllocaScopeOp::create(builder, loc, TypeRange{});
  omp::YieldOp::create(builder, loc);
  builder.createBlock(&scope.getBodyRegion());
  body(builder, loc, block->getArguments());
  builder.setInsertionPointToEnd(&scope.getBodyRegion().front());
  memref::AllocaScopeReturnOp::create(builder, loc);
  // The guard restores the point before the loop was built, which is where
  // ops that follow it go: the loop was inserted before that point.
}
