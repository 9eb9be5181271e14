//===- DecomposeOps.cpp - softmax and norms to linalg ---------------------===//
//
// The reference lowering of the dialect's tensor ops; attention stays whole.
// f16 and bf16 are computed in f32 and rounded once, as PyTorch's CPU kernels
// do.
//
//===----------------------------------------------------------------------===//

#include "../CastFloat.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace buddy {
#define GEN_PASS_DEF_DECOMPOSEOPS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using buddy::castFloat;
using utils::IteratorType;

namespace {
/// Small vocabulary for building linalg on tensors at one location.
struct TensorBuilder {
  OpBuilder &b;
  Location loc;
  /// Discardable attributes (the layer's path) of the op being lowered.
  DictionaryAttr attributes;

  using Body = llvm::function_ref<Value(OpBuilder &, ValueRange)>;

  Value empty(ArrayRef<OpFoldResult> sizes, Type type) {
    return tensor::EmptyOp::create(b, loc, sizes, type);
  }
  Value scalar(Type type, double value) { return scalarIn(b, type, value); }
  Value scalarIn(OpBuilder &at, Type type, double value) {
    return arith::ConstantOp::create(at, loc, at.getFloatAttr(type, value));
  }
  Value filled(ArrayRef<OpFoldResult> sizes, Type type, double value) {
    auto op =
        linalg::FillOp::create(b, loc, scalar(type, value), empty(sizes, type));
    return tag(op)->getResult(0);
  }
  Operation *tag(Operation *op) {
    op->setDiscardableAttrs(attributes);
    return op;
  }
  Value generic(ValueRange inputs, Value init, ArrayRef<AffineMap> maps,
                ArrayRef<IteratorType> iterators, Body body) {
    auto op = linalg::GenericOp::create(
        b, loc, init.getType(), inputs, init, maps, iterators,
        [&](OpBuilder &inner, Location, ValueRange args) {
          linalg::YieldOp::create(inner, loc, body(inner, args));
        });
    return tag(op)->getResult(0);
  }
};
} // namespace

static Type computeType(Type type) {
  return type.getIntOrFloatBitWidth() < 32 ? Float32Type::get(type.getContext())
                                           : type;
}

static SmallVector<AffineExpr> dims(MLIRContext *c, unsigned from,
                                    unsigned to) {
  SmallVector<AffineExpr> result;
  for (unsigned i = from; i < to; ++i)
    result.push_back(getAffineDimExpr(i, c));
  return result;
}

/// exp(x - max) and its sum along `dim`: {exponentials, sums}. The exponentials
/// keep the input's shape, the sums lose `dim`. A maximum of -inf counts as
/// the lowest number, so that a row without any finite entry gives zeros.
static std::pair<Value, Value> softmaxParts(TensorBuilder &t, Value x,
                                            Type type,
                                            ArrayRef<OpFoldResult> sizes,
                                            unsigned dim) {
  MLIRContext *c = t.b.getContext();
  unsigned rank = sizes.size();
  SmallVector<OpFoldResult> outer(sizes);
  outer.erase(outer.begin() + dim);
  SmallVector<AffineExpr> kept = dims(c, 0, rank);
  kept.erase(kept.begin() + dim);
  AffineMap full = AffineMap::getMultiDimIdentityMap(rank, c);
  AffineMap reduced = AffineMap::get(rank, 0, kept, c);
  SmallVector<IteratorType> reduce(rank, IteratorType::parallel), map = reduce;
  reduce[dim] = IteratorType::reduction;
  double lowest = APFloat::getLargest(cast<FloatType>(type).getFloatSemantics(),
                                      /*Negative=*/true)
                      .convertToDouble();
  Value max = t.generic(x, t.filled(outer, type, lowest), {full, reduced},
                        reduce, [&](OpBuilder &b, ValueRange a) -> Value {
                          return arith::MaximumFOp::create(
                              b, t.loc, castFloat(b, t.loc, a[0], type), a[1]);
                        });
  Value exp = t.generic({x, max}, t.empty(sizes, type), {full, reduced, full},
                        map, [&](OpBuilder &b, ValueRange a) -> Value {
                          Value d = arith::SubFOp::create(
                              b, t.loc, castFloat(b, t.loc, a[0], type), a[1]);
                          return math::ExpOp::create(b, t.loc, d);
                        });
  Value sum = t.generic(exp, t.filled(outer, type, 0.0), {full, reduced},
                        reduce, [&](OpBuilder &b, ValueRange a) -> Value {
                          return arith::AddFOp::create(b, t.loc, a[0], a[1]);
                        });
  return {exp, sum};
}

namespace {
struct LowerSoftmax : OpRewritePattern<buddy::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(buddy::SoftmaxOp op,
                                PatternRewriter &rewriter) const override {
    TensorBuilder t{rewriter, op.getLoc(), op->getDiscardableAttrDictionary()};
    MLIRContext *c = getContext();
    auto type = cast<RankedTensorType>(op.getInput().getType());
    Type compute = computeType(type.getElementType());
    unsigned rank = type.getRank(), dim = op.getDim();
    auto sizes = tensor::getMixedSizes(rewriter, op.getLoc(), op.getInput());
    auto [exp, sum] = softmaxParts(t, op.getInput(), compute, sizes, dim);
    AffineMap full = AffineMap::getMultiDimIdentityMap(rank, c);
    SmallVector<AffineExpr> kept = dims(c, 0, rank);
    kept.erase(kept.begin() + dim);
    Value result =
        t.generic({exp, sum}, t.empty(sizes, type.getElementType()),
                  {full, AffineMap::get(rank, 0, kept, c), full},
                  SmallVector<IteratorType>(rank, IteratorType::parallel),
                  [&](OpBuilder &b, ValueRange a) {
                    return castFloat(
                        b, t.loc, arith::DivFOp::create(b, t.loc, a[0], a[1]),
                        type.getElementType());
                  });
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// The number of elements of the trailing dimensions, as a float.
Value countElements(TensorBuilder &t, ArrayRef<OpFoldResult> sizes, Type type) {
  Value count = arith::ConstantIndexOp::create(t.b, t.loc, 1);
  for (OpFoldResult size : sizes)
    count = arith::MulIOp::create(
        t.b, t.loc, count, getValueOrCreateConstantIndexOp(t.b, t.loc, size));
  Value integer =
      arith::IndexCastOp::create(t.b, t.loc, t.b.getI64Type(), count);
  return arith::SIToFPOp::create(t.b, t.loc, type, integer);
}

/// Shared by the norms: a reduction over the trailing dimensions.
struct NormShape {
  SmallVector<OpFoldResult> sizes, outer, inner;
  AffineMap full, rows, columns;
  SmallVector<IteratorType> reduce, map;

  NormShape(OpBuilder &b, Location loc, Value input, int64_t trailing) {
    MLIRContext *c = b.getContext();
    sizes = tensor::getMixedSizes(b, loc, input);
    unsigned rank = sizes.size(), split = rank - trailing;
    outer.assign(sizes.begin(), sizes.begin() + split);
    inner.assign(sizes.begin() + split, sizes.end());
    full = AffineMap::getMultiDimIdentityMap(rank, c);
    rows = AffineMap::get(rank, 0, dims(c, 0, split), c);
    columns = AffineMap::get(rank, 0, dims(c, split, rank), c);
    map.assign(rank, IteratorType::parallel);
    reduce = map;
    std::fill(reduce.begin() + split, reduce.end(), IteratorType::reduction);
  }
};

struct LowerRMSNorm : OpRewritePattern<buddy::RMSNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(buddy::RMSNormOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    TensorBuilder t{rewriter, loc, op->getDiscardableAttrDictionary()};
    auto type = cast<RankedTensorType>(op.getInput().getType());
    Type element = type.getElementType(), compute = computeType(element);
    NormShape s(rewriter, loc, op.getInput(), op.getDims());
    Value sum = t.generic(
        op.getInput(), t.filled(s.outer, compute, 0.0), {s.full, s.rows},
        s.reduce, [&](OpBuilder &b, ValueRange a) -> Value {
          Value x = castFloat(b, loc, a[0], compute);
          return arith::AddFOp::create(
              b, loc, arith::MulFOp::create(b, loc, x, x), a[1]);
        });
    Value count = countElements(t, s.inner, compute);
    Value eps = t.scalar(compute, op.getEps().convertToDouble());
    // The factor of a row is computed once, not for each element.
    AffineMap rowMap =
        AffineMap::getMultiDimIdentityMap(s.outer.size(), getContext());
    Value factor = t.generic(
        sum, t.empty(s.outer, compute), {rowMap, rowMap},
        SmallVector<IteratorType>(s.outer.size(), IteratorType::parallel),
        [&](OpBuilder &b, ValueRange a) -> Value {
          Value mean = arith::DivFOp::create(b, loc, a[0], count);
          return math::RsqrtOp::create(
              b, loc, arith::AddFOp::create(b, loc, mean, eps));
        });
    SmallVector<Value> inputs = {op.getInput(), factor};
    SmallVector<AffineMap> maps = {s.full, s.rows};
    if (op.getWeight()) {
      inputs.push_back(op.getWeight());
      maps.push_back(s.columns);
    }
    maps.push_back(s.full);
    Value result =
        t.generic(inputs, t.empty(s.sizes, element), maps, s.map,
                  [&](OpBuilder &b, ValueRange a) {
                    Value y = arith::MulFOp::create(
                        b, loc, castFloat(b, loc, a[0], compute), a[1]);
                    if (op.getWeight())
                      y = arith::MulFOp::create(
                          b, loc, y, castFloat(b, loc, a[2], compute));
                    return castFloat(b, loc, y, element);
                  });
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct LowerLayerNorm : OpRewritePattern<buddy::LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(buddy::LayerNormOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    TensorBuilder t{rewriter, loc, op->getDiscardableAttrDictionary()};
    auto type = cast<RankedTensorType>(op.getInput().getType());
    Type element = type.getElementType(), compute = computeType(element);
    NormShape s(rewriter, loc, op.getInput(), op.getDims());
    Value sum = t.generic(op.getInput(), t.filled(s.outer, compute, 0.0),
                          {s.full, s.rows}, s.reduce,
                          [&](OpBuilder &b, ValueRange a) -> Value {
                            return arith::AddFOp::create(
                                b, loc, castFloat(b, loc, a[0], compute), a[1]);
                          });
    Value count = countElements(t, s.inner, compute);
    Value eps = t.scalar(compute, op.getEps().convertToDouble());
    AffineMap rowMap =
        AffineMap::getMultiDimIdentityMap(s.outer.size(), getContext());
    SmallVector<IteratorType> rowIterators(s.outer.size(),
                                           IteratorType::parallel);
    Value mean =
        t.generic(sum, t.empty(s.outer, compute), {rowMap, rowMap},
                  rowIterators, [&](OpBuilder &b, ValueRange a) -> Value {
                    return arith::DivFOp::create(b, loc, a[0], count);
                  });
    // Two passes: the variance of centred values does not cancel.
    Value squares =
        t.generic({op.getInput(), mean}, t.filled(s.outer, compute, 0.0),
                  {s.full, s.rows, s.rows}, s.reduce,
                  [&](OpBuilder &b, ValueRange a) -> Value {
                    Value d = arith::SubFOp::create(
                        b, loc, castFloat(b, loc, a[0], compute), a[1]);
                    return arith::AddFOp::create(
                        b, loc, arith::MulFOp::create(b, loc, d, d), a[2]);
                  });
    Value factor =
        t.generic(squares, t.empty(s.outer, compute), {rowMap, rowMap},
                  rowIterators, [&](OpBuilder &b, ValueRange a) -> Value {
                    Value var = arith::DivFOp::create(b, loc, a[0], count);
                    return math::RsqrtOp::create(
                        b, loc, arith::AddFOp::create(b, loc, var, eps));
                  });
    SmallVector<Value> inputs = {op.getInput(), mean, factor};
    SmallVector<AffineMap> maps = {s.full, s.rows, s.rows};
    for (Value p : op.getParameters()) {
      inputs.push_back(p);
      maps.push_back(s.columns);
    }
    maps.push_back(s.full);
    Value result =
        t.generic(inputs, t.empty(s.sizes, element), maps, s.map,
                  [&](OpBuilder &b, ValueRange a) {
                    Value y = arith::SubFOp::create(
                        b, loc, castFloat(b, loc, a[0], compute), a[1]);
                    y = arith::MulFOp::create(b, loc, y, a[2]);
                    unsigned next = 3;
                    if (op.getHasWeight())
                      y = arith::MulFOp::create(
                          b, loc, y, castFloat(b, loc, a[next++], compute));
                    if (op.getHasBias())
                      y = arith::AddFOp::create(
                          b, loc, y, castFloat(b, loc, a[next], compute));
                    return castFloat(b, loc, y, element);
                  });
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// Attention gets a destination and is left whole: buddy-lower-attention
/// computes it on buffers, without the matrix of all scores.
struct GiveDestination : OpRewritePattern<buddy::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(buddy::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    TensorBuilder t{rewriter, op.getLoc(), op->getDiscardableAttrDictionary()};
    auto type = cast<RankedTensorType>(op.getResult().getType());
    auto sizes = tensor::getMixedSizes(rewriter, op.getLoc(), op.getQuery());
    sizes.back() =
        tensor::getMixedSizes(rewriter, op.getLoc(), op.getValue()).back();
    // As static as the result's own type.
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (!ShapedType::isDynamic(size))
        sizes[dim] = rewriter.getIndexAttr(size);
    SmallVector<Value> operands = {op.getQuery(), op.getKey(), op.getValue()};
    if (Value mask = op.getMask())
      operands.push_back(toBytes(t, mask));
    Value init = t.empty(sizes, type.getElementType());
    operands.push_back(init);
    auto made = buddy::AttentionIntoOp::create(
        rewriter, op.getLoc(), init.getType(), operands, op->getAttrs());
    Value result = made.getResult();
    if (result.getType() != type)
      result = tensor::CastOp::create(rewriter, op.getLoc(), type, result);
    rewriter.replaceOp(op, result);
    return success();
  }

  /// Bits of a mask as bytes, which lie in memory as they do in vectors. What
  /// computes the mask is fused with it.
  Value toBytes(TensorBuilder &t, Value mask) const {
    auto type = cast<RankedTensorType>(mask.getType());
    if (!type.getElementType().isInteger(1))
      return mask;
    Type byte = t.b.getI8Type();
    AffineMap map =
        AffineMap::getMultiDimIdentityMap(type.getRank(), getContext());
    return t.generic(
        mask, t.empty(tensor::getMixedSizes(t.b, t.loc, mask), byte),
        {map, map},
        SmallVector<IteratorType>(type.getRank(), IteratorType::parallel),
        [&](OpBuilder &b, ValueRange a) -> Value {
          return arith::ExtUIOp::create(b, t.loc, byte, a[0]);
        });
  }
};

struct DecomposeOps : buddy::impl::DecomposeOpsBase<DecomposeOps> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<LowerSoftmax, LowerRMSNorm, LowerLayerNorm, GiveDestination>(
        &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
