//===- FuseElementwise.cpp - fuse chains of element-wise ops --------------===//

#include "buddy/Transforms/Passes.h"
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
             !recomputesMuch(producer, consumer);
    };
    RewritePatternSet patterns(&getContext());
    linalg::populateElementwiseOpsFusionPatterns(patterns, control);
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
