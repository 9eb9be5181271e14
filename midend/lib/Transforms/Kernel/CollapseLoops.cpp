//===- CollapseLoops.cpp - loops over adjacent dimensions as one ----------===//

#include "CollapseLoops.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

/// True if the loops `dim` and the one after it go over an operand's memory as
/// one: they are two of its dimensions without a gap between rows, or none.
static bool isOne(linalg::LinalgOp op, OpOperand &operand, unsigned dim) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  std::optional<unsigned> at;
  for (auto [i, expr] : llvm::enumerate(map.getResults())) {
    if (!expr.isFunctionOfDim(dim) && !expr.isFunctionOfDim(dim + 1))
      continue;
    if (at && *at + 1 == i &&
        expr == getAffineDimExpr(dim + 1, op.getContext()))
      continue;
    if (at || expr != getAffineDimExpr(dim, op.getContext()))
      return false;
    at = i;
  }
  if (!at)
    return true;
  auto type = dyn_cast<MemRefType>(operand.get().getType());
  if (!type || *at + 1 >= map.getNumResults() ||
      map.getResult(*at + 1) != getAffineDimExpr(dim + 1, op.getContext()))
    return false;
  SmallVector<ReassociationIndices> groups;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (i == *at + 1)
      groups.back().push_back(i);
    else
      groups.push_back({i});
  }
  return memref::CollapseShapeOp::isGuaranteedCollapsible(type, groups);
}

linalg::LinalgOp buddy::collapseLoops(RewriterBase &rewriter,
                                      linalg::LinalgOp op) {
  // Windows are no dimensions; upstream's maps would be wrong.
  if (!isa<linalg::GenericOp>(op) ||
      !llvm::all_of(op.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isProjectedPermutation(); }))
    return op;
  auto iterators = op.getIteratorTypesArray();
  llvm::SmallDenseSet<unsigned> named;
  op->getRegion(0).walk(
      [&](linalg::IndexOp index) { named.insert(index.getDim()); });
  SmallVector<ReassociationIndices> groups;
  bool any = false;
  for (unsigned dim = 0; dim < op.getNumLoops(); ++dim) {
    bool joins = dim > 0 && iterators[dim - 1] == iterators[dim] &&
                 !named.contains(dim - 1) && !named.contains(dim) &&
                 llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
                   return isOne(op, operand, dim - 1);
                 });
    if (joins)
      groups.back().push_back(dim);
    else
      groups.push_back({static_cast<int64_t>(dim)});
    any |= joins;
  }
  if (!any)
    return op;
  rewriter.setInsertionPoint(op);
  FailureOr<linalg::CollapseResult> result =
      linalg::collapseOpIterationDims(op, groups, rewriter);
  if (failed(result))
    return op;
  linalg::LinalgOp collapsed = result->collapsedOp;
  collapsed->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.eraseOp(op);
  return collapsed;
}
