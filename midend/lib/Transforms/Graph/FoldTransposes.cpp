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

/// True if each dimension is either summed over, then both factors have it, or
/// one of the result's that a factor has: else its size would be known from
/// nothing, or a factor would be multiplied by a plain sum.
static bool isContraction(ArrayRef<AffineMap> maps) {
  for (unsigned dim = 0; dim < maps[0].getNumDims(); ++dim) {
    bool inA = maps[0].isFunctionOfDim(dim);
    bool inB = maps[1].isFunctionOfDim(dim);
    if (maps[2].isFunctionOfDim(dim) ? !inA && !inB : !inA || !inB)
      return false;
  }
  return true;
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
      AffineMap before = maps[i];
      maps[i] = map->compose(before);
      // A broadcast is not folded where it is all that has a dimension.
      if (!isContraction(maps)) {
        maps[i] = before;
        continue;
      }
      inputs[i] = source;
      changed = true;
    }
    if (!changed)
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
