//===- LowerForalls.cpp - scf.forall as OpenMP loops ----------------------===//
//
// Enters: `scf.forall` on memrefs. Leaves: parallel regions, before the
// generators run, which so know that what is inside has its threads already.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Passes.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/OpenMP/OpenMPDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERFORALLS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// Operations on an element that is read or written; a row's work is more than
/// to move it.
static constexpr int64_t kWorkOfElement = 4;

static bool isInside(Value v, Operation *op) {
  return op->isAncestor(v.getParentBlock()->getParentOp());
}

/// An estimate of the whole loop's work: the elements of the buffers that its
/// iterations take parts of. What ops look up in buffers does not count, a
/// table being larger than what is read of it.
static Value estimateWork(OpBuilder &b, scf::ForallOp loop) {
  SetVector<Value> buffers;
  loop.getBody()->walk([&](Operation *op) {
    if (op->getParentOfType<linalg::LinalgOp>())
      return;
    for (Value v : op->getOperands())
      if (isa<MemRefType>(v.getType()) && !isInside(v, loop))
        buffers.insert(v);
  });
  Location loc = loop.getLoc();
  auto constant = [&](int64_t v) -> Value {
    return arith::ConstantIndexOp::create(b, loc, v);
  };
  Value work = constant(0);
  for (Value buffer : buffers) {
    Value count = constant(kWorkOfElement);
    for (OpFoldResult size : memref::getMixedSizes(b, loc, buffer))
      count = b.createOrFold<arith::MulIOp>(
          loc, count, getValueOrCreateConstantIndexOp(b, loc, size));
    work = b.createOrFold<arith::AddIOp>(loc, work, count);
  }
  return work;
}

namespace {
struct LowerForalls : buddy::impl::LowerForallsBase<LowerForalls> {
  /// Its buffers can be each thread's, made once before the iterations.
  static bool canBeParallel(scf::ForallOp loop) {
    // In a region already, sizes may be known too late for its buffers.
    if (loop.getNumResults() != 0 || loop.getMapping().has_value() ||
        loop->getParentOfType<omp::ParallelOp>())
      return false;
    return !loop.getBody()
                ->walk([&](memref::AllocOp alloc) {
                  return llvm::any_of(
                             alloc->getOperands(),
                             [&](Value size) { return isInside(size, loop); })
                             ? WalkResult::interrupt()
                             : WalkResult::advance();
                })
                .wasInterrupted();
  }

  void runOnOperation() override {
    SmallVector<scf::ForallOp> loops;
    getOperation().walk<WalkOrder::PreOrder>([&](scf::ForallOp loop) {
      if (!canBeParallel(loop))
        return WalkResult::advance();
      loops.push_back(loop);
      return WalkResult::skip();
    });
    for (scf::ForallOp loop : loops)
      lower(loop);
  }

  void lower(scf::ForallOp loop) {
    IRRewriter b(loop);
    Location loc = loop.getLoc();
    auto values = [&](ArrayRef<OpFoldResult> mixed) {
      return getValueOrCreateConstantIndexOp(b, loc, mixed);
    };
    SmallVector<Value> lower = values(loop.getMixedLowerBound()),
                       upper = values(loop.getMixedUpperBound()),
                       step = values(loop.getMixedStep());
    Value work = estimateWork(b, loop);
    SmallVector<memref::AllocOp> allocs;
    Block *inside = nullptr;
    buddy::createParallelLoop(
        b, loc, lower, upper, step, work,
        [&](OpBuilder &builder, Location, ValueRange ivs) {
          IRMapping map;
          map.map(loop.getInductionVars(), ivs);
          inside = builder.getInsertionBlock();
          for (Operation &op : loop.getBody()->without_terminator())
            builder.clone(op, map)->walk(
                [&](memref::AllocOp alloc) { allocs.push_back(alloc); });
        });
    auto region = inside->getParentOp()->getParentOfType<omp::ParallelOp>();
    for (memref::AllocOp alloc : allocs)
      alloc->moveBefore(&region.getRegion().front(),
                        region.getRegion().front().begin());
    b.eraseOp(loop);
  }
};
} // namespace
