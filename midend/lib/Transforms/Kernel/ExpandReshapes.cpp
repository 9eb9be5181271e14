//===- ExpandReshapes.cpp - expand_shape to reinterpret_cast --------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"

namespace buddy {
#define GEN_PASS_DEF_EXPANDRESHAPES
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// The static value if there is one, so that the cast has the op's own type.
static OpFoldResult pick(OpBuilder &b, int64_t fixed, OpFoldResult value) {
  return ShapedType::isDynamic(fixed) ? value
                                      : OpFoldResult(b.getIndexAttr(fixed));
}

static void expand(memref::ExpandShapeOp op, RewriterBase &rewriter) {
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  auto type = cast<MemRefType>(op.getResult().getType());
  auto [staticStrides, staticOffset] = type.getStridesAndOffset();
  auto metadata =
      memref::ExtractStridedMetadataOp::create(rewriter, loc, op.getSrc());
  SmallVector<OpFoldResult> sizes = op.getMixedOutputShape();
  SmallVector<OpFoldResult> strides(sizes.size());
  auto multiply = [&](OpFoldResult a, OpFoldResult b) -> OpFoldResult {
    auto x = getConstantIntValue(a), y = getConstantIntValue(b);
    if (x && y)
      return rewriter.getIndexAttr(*x * *y);
    return arith::MulIOp::create(
               rewriter, loc, getValueOrCreateConstantIndexOp(rewriter, loc, a),
               getValueOrCreateConstantIndexOp(rewriter, loc, b))
        .getResult();
  };
  for (auto [group, indices] : llvm::enumerate(op.getReassociationIndices())) {
    OpFoldResult stride = OpFoldResult(metadata.getStrides()[group]);
    for (int64_t i : llvm::reverse(indices)) {
      sizes[i] = pick(rewriter, type.getDimSize(i), sizes[i]);
      strides[i] = pick(rewriter, staticStrides[i], stride);
      stride = multiply(strides[i], sizes[i]);
    }
  }
  // A scalar becomes dimensions of size 1.
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!strides[i])
      strides[i] = rewriter.getIndexAttr(1);
    sizes[i] = pick(rewriter, type.getDimSize(i), sizes[i]);
  }
  OpFoldResult offset =
      pick(rewriter, staticOffset, OpFoldResult(metadata.getOffset()));
  rewriter.replaceOpWithNewOp<memref::ReinterpretCastOp>(
      op, type, metadata.getBaseBuffer(), offset, sizes, strides);
}

namespace {
struct ExpandReshapes : buddy::impl::ExpandReshapesBase<ExpandReshapes> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<memref::ExpandShapeOp> ops;
    getOperation().walk([&](memref::ExpandShapeOp op) { ops.push_back(op); });
    for (memref::ExpandShapeOp op : ops)
      expand(op, rewriter);
  }
};
} // namespace
