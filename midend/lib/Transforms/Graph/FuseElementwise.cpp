//===- FuseElementwise.cpp - fuse chains of element-wise ops --------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace buddy {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// True if the consumer would compute the producer's body more often than the
/// producer does, and the body is worth computing once.
static bool recomputesMuch(linalg::GenericOp producer,
                           linalg::LinalgOp consumer) {
  return producer.getNumLoops() < consumer.getNumLoops() &&
         llvm::any_of(
             producer.getBody()->without_terminator(),
             [](Operation &op) {
               return isa<arith::DivFOp>(op) ||
                      isa_and_nonnull<math::MathDialect>(op.getDialect());
             });
}

/// True if the producer updates what it reads, and the consumer would not do so
/// once an element: the update would be repeated.
static bool repeatsUpdate(linalg::GenericOp producer, OpOperand *operand) {
  auto consumer = cast<linalg::LinalgOp>(operand->getOwner());
  return !consumer.getMatchingIndexingMap(operand).isPermutation() &&
         llvm::any_of(producer.getRegionOutputArgs(),
                      [](BlockArgument old) { return !old.use_empty(); });
}

/// The operand is the result of a contraction, or of what followed it, in the
/// shape of a convolution's: without the reshape in between the op is the
/// contraction's epilogue.
static bool isReshapedResult(OpOperand *operand) {
  auto expand = operand->get().getDefiningOp<tensor::ExpandShapeOp>();
  auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
  if (!expand || !expand->hasOneUse() || !consumer ||
      consumer.getNumReductionLoops() != 0 || consumer.hasIndexSemantics() ||
      !expand.getType().hasStaticShape())
    return false;
  // Seen in one piece, what does not lie in one would be copied.
  for (OpOperand *other : consumer.getDpsInputOperands()) {
    if (other->get().getDefiningOp<tensor::ExtractSliceOp>())
      return false;
    auto tensor = other->get().getDefiningOp<bufferization::ToTensorOp>();
    if (tensor && !cast<MemRefType>(tensor.getBuffer().getType())
                       .getLayout()
                       .isIdentity())
      return false;
  }
  Value result = expand.getSrc();
  for (int64_t steps = 0; steps < 8; ++steps) {
    auto producer = result.getDefiningOp<linalg::GenericOp>();
    if (!producer || !producer->hasOneUse())
      return false;
    if (producer.getNumReductionLoops() != 0)
      return true;
    // The chain's first operand is where it comes from.
    if (producer.getNumDpsInputs() == 0)
      return false;
    result = producer.getDpsInputs()[0];
  }
  return false;
}

namespace {
struct FuseElementwise : buddy::impl::FuseElementwiseBase<FuseElementwise> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::LinalgOp> named;
    getOperation().walk([&](linalg::LinalgOp op) {
      if (!isa<linalg::GenericOp>(op) &&
          !linalg::isaContractionOpInterface(op) &&
          !linalg::isaConvolutionOpInterface(op))
        named.push_back(op);
    });
    for (linalg::LinalgOp op : named) {
      DictionaryAttr kept = op->getDiscardableAttrDictionary();
      rewriter.setInsertionPoint(op);
      if (auto generic = linalg::generalizeNamedOp(rewriter, op);
          succeeded(generic))
        (*generic)->setDiscardableAttrs(kept);
    }

    auto control = [](OpOperand *operand) {
      auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
      auto consumer = cast<linalg::LinalgOp>(operand->getOwner());
      return producer && producer->hasOneUse() &&
             !linalg::isaContractionOpInterface(consumer) &&
             !consumer->hasAttr(buddy::kWindowsAttr) &&
             !recomputesMuch(producer, consumer) &&
             !repeatsUpdate(producer, operand);
    };
    RewritePatternSet patterns(&getContext());
    linalg::populateElementwiseOpsFusionPatterns(patterns, control);
    linalg::populateFoldReshapeOpsByCollapsingPatterns(patterns,
                                                       isReshapedResult);
    linalg::populateEraseUnusedOperandsAndResultsPatterns(patterns);
    linalg::populateInlineConstantOperandsPatterns(patterns);
    tensor::populateFoldTensorEmptyPatterns(patterns);
    memref::populateResolveRankedShapedTypeResultDimsPatterns(patterns);
    linalg::GenericOp::getCanonicalizationPatterns(patterns, &getContext());
    linalg::FillOp::getCanonicalizationPatterns(patterns, &getContext());
    tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, &getContext());
    tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns,
                                                         &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
