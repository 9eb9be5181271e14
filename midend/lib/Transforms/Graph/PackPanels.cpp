//===- PackPanels.cpp - weights of floats in panels
//------------------------===//

#include "../Contraction/Contraction.h"
#include "WeightPacking.h"
#include "buddy/Transforms/Schedule.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"

using namespace mlir;
using namespace buddy;

PanelsAttr buddy::choosePanels(MemRefType type, bool transposed,
                               const TargetInfo &target) {
  // Of scalable vectors a file cannot know the length.
  if (type.getRank() != 2 || !type.hasStaticShape() || target.scalableVectors)
    return {};
  Type element = type.getElementType();
  int64_t n = type.getDimSize(transposed), k = type.getDimSize(!transposed);
  auto [vl, vectors] = panelVectors(target);
  if (element.getIntOrFloatBitWidth() > 32)
    vl = std::max(1u, target.vectorLength(element.getIntOrFloatBitWidth()));
  // Few columns fill one vector, one of them none.
  vectors = std::min<int64_t>(vectors, llvm::divideCeil(n, vl));
  if (n < 2 || k < 1 || vl * vectors < 2)
    return {};
  int64_t unit = element.isBF16() && target.hasBFloat16Dot() ? 2 : 1;
  return PanelsAttr::get(type.getContext(), n, k, vl * vectors, unit,
                         transposed);
}

std::optional<bool> buddy::matchPanelUse(OpOperand &use) {
  auto op = dyn_cast<linalg::LinalgOp>(use.getOwner());
  if (!op || !op.hasPureTensorSemantics())
    return std::nullopt;
  std::optional<Contraction> c = Contraction::match(op);
  // Not that of a tensor with itself.
  if (!c || c->b.panels || c->b.value != use.get() ||
      c->a.value == c->b.value || c->c.value == c->b.value ||
      c->b.map.getNumResults() != 2 || !c->b.has(c->col) || !c->b.has(c->red))
    return std::nullopt;
  for (Value operand : op->getOperands())
    if (!isa<FloatType>(getElementTypeOrSelf(operand)))
      return std::nullopt;
  // Factors that are cast twice, or not pairs of bf16, are read one by one.
  if (c->b.elementType().isBF16() && !c->multipliesBFloat16())
    return std::nullopt;
  return c->b.map.getDimPosition(1) == c->col;
}

void buddy::packPanelUse(RewriterBase &rewriter, OpOperand &use,
                         PanelsAttr panels) {
  auto op = cast<linalg::LinalgOp>(use.getOwner());
  Contraction c = *Contraction::match(op);
  rewriter.setInsertionPoint(op);
  MLIRContext *context = rewriter.getContext();
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  maps[use.getOperandNumber()] =
      AffineMap::get(op.getNumLoops(), 0,
                     panels.index(getAffineDimExpr(c.col, context),
                                  getAffineDimExpr(c.red, context)),
                     context);
  auto product = linalg::GenericOp::create(
      rewriter, op.getLoc(), op->getResultTypes(), op.getDpsInputs(),
      op.getDpsInits(), maps, op.getIteratorTypesArray());
  rewriter.inlineRegionBefore(op->getRegion(0), product.getRegion(),
                              product.getRegion().begin());
  // The module path, and a schedule that the user wrote.
  product->setDiscardableAttrs(llvm::to_vector(op->getDiscardableAttrs()));
  rewriter.replaceOp(op, product);
}

Value buddy::extractFromPanels(RewriterBase &rewriter,
                               tensor::ExtractOp extract, PanelsAttr panels) {
  rewriter.setInsertionPoint(extract);
  Location loc = extract.getLoc();
  unsigned n = panels.getTransposed();
  SmallVector<Value> position = {extract.getIndices()[n],
                                 extract.getIndices()[1 - n]};
  AffineExpr col, row;
  bindDims(rewriter.getContext(), col, row);
  SmallVector<Value> indices;
  for (AffineExpr expr : panels.index(col, row))
    indices.push_back(affine::AffineApplyOp::create(
        rewriter, loc, AffineMap::get(2, 0, expr), position));
  return tensor::ExtractOp::create(rewriter, loc,
                                   getElementTypeOrSelf(extract.getType()),
                                   extract.getTensor(), indices);
}
