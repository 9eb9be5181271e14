//===- FoldTransposes.cpp - operands of contractions by indexing map ------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace buddy {
#define GEN_PASS_DEF_FOLDTRANSPOSES
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// If `producer` only rearranges its one input, returns the map from the
/// producer's result indices to the input's indices.
static std::optional<AffineMap> getRearrangement(linalg::LinalgOp producer) {
  if (!producer || producer.getNumDpsInputs() != 1 ||
      producer.getNumDpsInits() != 1 || producer.getNumReductionLoops() != 0)
    return std::nullopt;
  Block &body = producer->getRegion(0).front();
  if (!llvm::hasSingleElement(body) ||
      body.getTerminator()->getOperand(0) != body.getArgument(0))
    return std::nullopt;
  AffineMap in =
      producer.getMatchingIndexingMap(producer.getDpsInputOperand(0));
  AffineMap out =
      producer.getMatchingIndexingMap(producer.getDpsInitOperand(0));
  if (!out.isPermutation() || !in.isProjectedPermutation())
    return std::nullopt;
  return in.compose(inversePermutation(out));
}

namespace {
struct FoldRearrangedOperand : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.hasPureTensorSemantics() || !linalg::isaContractionOpInterface(op))
      return failure();
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    SmallVector<Value> inputs = op.getDpsInputs();
    bool changed = false;
    for (auto [i, input] : llvm::enumerate(inputs)) {
      auto producer = input.getDefiningOp<linalg::LinalgOp>();
      std::optional<AffineMap> map = getRearrangement(producer);
      if (!map)
        continue;
      Value source = producer.getDpsInputs()[0];
      if (!isa<RankedTensorType>(source.getType()) ||
          getElementTypeOrSelf(source.getType()) !=
              getElementTypeOrSelf(input.getType()))
        continue;
      inputs[i] = source;
      maps[i] = map->compose(maps[i]);
      changed = true;
    }
    // Every dimension must still be known from an operand's shape.
    if (!changed ||
        !inversePermutation(concatAffineMaps(maps, op.getContext())))
      return failure();
    if (auto generic = dyn_cast<linalg::GenericOp>(op.getOperation())) {
      rewriter.modifyOpInPlace(generic, [&] {
        generic.getInputsMutable().assign(inputs);
        generic.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
      });
      return success();
    }
    DictionaryAttr kept = op->getDiscardableAttrDictionary();
    auto contract = linalg::ContractOp::create(
        rewriter, op.getLoc(), op->getResultTypes(), inputs, op.getDpsInits(),
        rewriter.getAffineMapArrayAttr(maps));
    contract->setDiscardableAttrs(kept);
    rewriter.replaceOp(op, contract);
    return success();
  }
};

struct FoldTransposes : buddy::impl::FoldTransposesBase<FoldTransposes> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldRearrangedOperand>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
