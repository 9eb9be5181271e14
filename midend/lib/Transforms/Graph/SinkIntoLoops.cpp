//===- SinkIntoLoops.cpp - rows computed in the loop that takes them ------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace buddy {
#define GEN_PASS_DEF_SINKINTOLOOPS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// True if all iterations of the innermost loop around a slice together take
/// each element of its source once: one dimension by the loop's counter, from
/// the first element to the last, the others whole.
static bool takesAllOnce(tensor::ExtractSliceOp slice) {
  auto loop = dyn_cast<scf::ForOp>(slice->getParentOp());
  Value source = slice.getSource();
  // The source is made outside of this loop, and of no other.
  if (!loop || source.getParentBlock() != loop->getBlock() ||
      !slice.hasUnitStride() || !isZeroInteger(loop.getLowerBound()) ||
      !isOneInteger(loop.getStep()))
    return false;
  auto generic = source.getDefiningOp<linalg::GenericOp>();
  OpBuilder b(slice);
  bool counted = false;
  for (auto [i, offset, size] :
       llvm::enumerate(slice.getMixedOffsets(), slice.getMixedSizes())) {
    OpFoldResult whole;
    if (auto empty = generic.getDpsInits()[0].getDefiningOp<tensor::EmptyOp>())
      whole = empty.getMixedSizes()[i];
    if (!whole)
      return false;
    if (offset == OpFoldResult(loop.getInductionVar())) {
      if (counted || !isOneInteger(size) ||
          !isEqualConstantIntOrValue(OpFoldResult(loop.getUpperBound()), whole))
        return false;
      counted = true;
    } else if (!isZeroInteger(offset) ||
               !isEqualConstantIntOrValue(size, whole)) {
      return false;
    }
  }
  return counted;
}

/// An element-wise op of one result, each element cheap.
static bool isCheap(linalg::GenericOp op) {
  return op && op.getNumResults() == 1 &&
         op.getNumParallelLoops() == op.getNumLoops() &&
         op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity() &&
         llvm::all_of(
             op.getIndexingMapsArray(),
             [](AffineMap map) { return map.isProjectedPermutation(true); }) &&
         llvm::none_of(
             op.getBody()->without_terminator(), [](Operation &inner) {
               return isa<arith::DivFOp>(inner) ||
                      isa<CallOpInterface>(inner) ||
                      inner.getNumRegions() != 0 ||
                      isa_and_nonnull<math::MathDialect>(inner.getDialect());
             });
}

namespace {
struct SinkIntoLoops : buddy::impl::SinkIntoLoopsBase<SinkIntoLoops> {
  void runOnOperation() override {
    SmallVector<Operation *> slices;
    getOperation().walk([&](tensor::ExtractSliceOp slice) {
      auto producer = slice.getSource().getDefiningOp<linalg::GenericOp>();
      if (producer && producer->hasOneUse() && isCheap(producer) &&
          slice.getSourceType().getRank() == slice.getType().getRank() &&
          takesAllOnce(slice))
        slices.push_back(slice);
    });
    RewritePatternSet patterns(&getContext());
    linalg::populateBubbleUpExtractSliceOpPatterns(patterns);
    GreedyRewriteConfig config;
    config.setStrictness(GreedyRewriteStrictness::ExistingOps);
    if (!slices.empty() &&
        failed(applyOpPatternsGreedily(slices, std::move(patterns), config)))
      return signalPassFailure();
    // The whole is not there any more, to be computed in a slice of it.
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](tensor::ExtractSliceOp slice) {
      if (!slice.getSource().getDefiningOp<tensor::EmptyOp>() ||
          slice.getSourceType().getRank() != slice.getType().getRank())
        return;
      rewriter.setInsertionPoint(slice);
      rewriter.replaceOpWithNewOp<tensor::EmptyOp>(
          slice, slice.getMixedSizes(), slice.getType().getElementType());
    });
  }
};
} // namespace
