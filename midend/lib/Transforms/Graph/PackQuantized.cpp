//===- PackQuantized.cpp - weights in blocks of small integers ------------===//

#include "../CastFloat.h"
#include "../Contraction/Contraction.h"
#include "WeightPacking.h"
#include "buddy/Transforms/Schedule.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace buddy;

namespace {
/// What a format stores of each block of 32: see the GGUF specification
/// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). q8_0 is signed;
/// its elements are stored with 128 added.
struct Format {
  StringLiteral name;
  int64_t bits, zero;
  bool mins;
};
} // namespace

static constexpr Format kFormats[] = {
    {"q4_0", 4, 8, false}, {"q4_1", 4, 0, true}, {"q8_0", 8, 128, false}};
static constexpr int64_t kBlock = 32;

/// The register tile: sums in i32 and in f32 of each row and vector, the
/// weight's vectors, its scales and minima.
static ScheduleAttr quantizedSchedule(PackingAttr packing,
                                      const TargetInfo &target) {
  auto [vl, nr] = panelVectors(target);
  int64_t registers = target.vectorRegisters;
  if (target.scalableVectors)
    registers /= 4;
  int64_t mr = std::max<int64_t>(1, (registers - 3 * nr) / (2 * nr));
  mr = llvm::bit_floor<uint64_t>(mr);
  // The rows of a task stay in the second-level cache while panels pass by.
  int64_t mc = llvm::bit_floor<uint64_t>(std::max<int64_t>(
      1, target.l2Bytes / 2 / std::max<int64_t>(packing.getK(), 1)));
  mc = std::clamp<int64_t>(mc, mr, 256) / mr * mr;
  bool tiles = target.hasByteTiles() && vl == 16 && mc % 32 == 0;
  return ScheduleAttr::get(packing.getContext(), mr, nr, vl, false, mc,
                           packing.getBlock(), 1, 0, 0, false, tiles ? 16 : 0);
}

PackingAttr buddy::chooseQuantized(MLIRContext *context, StringRef format,
                                   ArrayRef<int64_t> shape,
                                   const TargetInfo &target) {
  const Format *found = llvm::find_if(
      kFormats, [&](const Format &f) { return f.name == format; });
  if (found == std::end(kFormats) || shape.size() != 2 ||
      ShapedType::isDynamicShape(shape) || shape[1] % kBlock != 0)
    return {};
  auto [vl, vectors] = panelVectors(target);
  return PackingAttr::get(context, format, shape[0], shape[1], vl * vectors,
                          kBlock, found->bits, found->zero, found->mins,
                          target.hasFloat16Conversion() ? 16 : 32);
}

namespace {
/// The product `rows [.., k] x weight [n, k]` that a contraction is.
struct RowProduct {
  linalg::LinalgOp op;
  Value rows;
};
} // namespace

/// Matches a contraction in which the operand is a weight [n, k], the other one
/// has k as its last dimension, and the output n.
static std::optional<RowProduct> matchRowProduct(OpOperand &weight) {
  auto op = dyn_cast<linalg::LinalgOp>(weight.getOwner());
  if (!op || !op.hasPureTensorSemantics() || weight.getOperandNumber() > 1)
    return std::nullopt;
  Value rows = op->getOperand(1 - weight.getOperandNumber());
  if (rows == weight.get() || !Contraction::match(op))
    return std::nullopt;
  for (Value operand : op->getOperands())
    if (!isa<FloatType>(getElementTypeOrSelf(operand)))
      return std::nullopt;
  auto results = [&](unsigned operand) {
    return op.getIndexingMapsArray()[operand].getResults();
  };
  ArrayRef<AffineExpr> w = results(weight.getOperandNumber()),
                       x = results(1 - weight.getOperandNumber()),
                       c = results(2);
  if (w.size() != 2 || x.empty() || c.size() != x.size() ||
      op.getNumLoops() != x.size() + 1 || w[0] != c.back() ||
      w[1] != x.back() || x.drop_back() != c.drop_back())
    return std::nullopt;
  return RowProduct{op, rows};
}

bool buddy::isQuantizableUse(OpOperand &use) {
  return matchRowProduct(use).has_value();
}

/// The tensor with elements of another float type.
static Value castRows(RewriterBase &rewriter, Location loc, Value rows,
                      Type element) {
  auto type = cast<RankedTensorType>(rows.getType());
  if (type.getElementType() == element)
    return rows;
  Value empty = tensor::EmptyOp::create(
      rewriter, loc, tensor::getMixedSizes(rewriter, loc, rows), element);
  AffineMap map = rewriter.getMultiDimIdentityMap(type.getRank());
  return linalg::GenericOp::create(
             rewriter, loc, empty.getType(), rows, empty,
             SmallVector<AffineMap>(2, map),
             SmallVector<utils::IteratorType>(type.getRank(),
                                              utils::IteratorType::parallel),
             [&](OpBuilder &b, Location loc, ValueRange args) {
               linalg::YieldOp::create(b, loc,
                                       castFloat(b, loc, args[0], element));
             })
      .getResult(0);
}

// What the output held before is added.
void buddy::packQuantizedUse(RewriterBase &rewriter, OpOperand &use,
                             PackingAttr packing, bool quantizesRows,
                             const TargetInfo &target) {
  RowProduct product = *matchRowProduct(use);
  Value weight = use.get();
  linalg::LinalgOp op = product.op;
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  Value rows = product.rows, init = op.getDpsInits()[0];
  int64_t rank = cast<RankedTensorType>(rows.getType()).getRank();
  Type f32 = rewriter.getF32Type();
  // All leading dimensions are rows.
  SmallVector<ReassociationIndices> groups(2);
  for (int64_t i = 0; i + 1 < rank; ++i)
    groups[0].push_back(i);
  groups[1].push_back(rank - 1);
  if (rank > 2)
    rows = tensor::CollapseShapeOp::create(rewriter, loc, rows, groups);
  if (rank == 1)
    rows = tensor::ExpandShapeOp::create(
        rewriter, loc,
        RankedTensorType::get({1, packing.getK()}, getElementTypeOrSelf(rows)),
        rows, ArrayRef<ReassociationIndices>{{0, 1}});
  OpFoldResult m = tensor::getMixedSize(rewriter, loc, rows, 0);
  auto empty = [&](ArrayRef<OpFoldResult> sizes, Type type) -> Value {
    return tensor::EmptyOp::create(rewriter, loc, sizes, type);
  };
  auto keepPath = [&](Operation *made) {
    if (Attribute path = op->getAttr(kModuleAttr))
      made->setAttr(kModuleAttr, path);
  };
  Value output = empty({m, rewriter.getIndexAttr(packing.getN())}, f32);
  Operation *matmul;
  if (quantizesRows) {
    OpFoldResult blocks = rewriter.getIndexAttr(packing.blocks());
    Value elements =
        empty({m, blocks, rewriter.getIndexAttr(packing.getBlock())},
              rewriter.getI8Type());
    Value scales = empty({m, blocks}, f32);
    Value sums = empty({m, blocks}, rewriter.getI32Type());
    auto quantized = QuantizeOp::create(
        rewriter, loc,
        TypeRange{elements.getType(), scales.getType(), sums.getType()}, rows,
        elements, scales, sums);
    keepPath(quantized);
    matmul = QuantizedMatmulOp::create(
        rewriter, loc, TypeRange{output.getType()}, quantized.getResult(0),
        quantized.getResult(1), quantized.getResult(2), weight, output,
        packing);
    matmul->setAttr(kScheduleAttr, quantizedSchedule(packing, target));
  } else {
    matmul = DequantizedMatmulOp::create(
        rewriter, loc, TypeRange{output.getType()},
        castRows(rewriter, loc, rows, f32), weight, output, packing);
  }
  keepPath(matmul);
  Value result = matmul->getResult(0);
  auto type = cast<RankedTensorType>(init.getType());
  auto wide = RankedTensorType::get(type.getShape(), f32);
  if (rank > 2)
    result = tensor::ExpandShapeOp::create(
        rewriter, loc, wide, result, groups,
        tensor::getMixedSizes(rewriter, loc, init));
  if (rank == 1)
    result = tensor::CollapseShapeOp::create(
        rewriter, loc, wide, result, ArrayRef<ReassociationIndices>{{0, 1}});
  auto fill = init.getDefiningOp<linalg::LinalgOp>();
  bool zero = fill && isZeroFill(fill);
  if (!zero || type != wide) {
    AffineMap map = rewriter.getMultiDimIdentityMap(type.getRank());
    SmallVector<Value> inputs = {result};
    if (!zero)
      inputs.push_back(init);
    Value destination = empty(tensor::getMixedSizes(rewriter, loc, init),
                              type.getElementType());
    result = linalg::GenericOp::create(
                 rewriter, loc, type, inputs, destination,
                 SmallVector<AffineMap>(inputs.size() + 1, map),
                 SmallVector<utils::IteratorType>(
                     type.getRank(), utils::IteratorType::parallel),
                 [&](OpBuilder &b, Location loc, ValueRange args) {
                   Value sum = args[0];
                   if (!zero)
                     sum = arith::AddFOp::create(
                         b, loc, sum, castFloat(b, loc, args[1], f32));
                   linalg::YieldOp::create(
                       b, loc, castFloat(b, loc, sum, type.getElementType()));
                 })
                 .getResult(0);
  }
  rewriter.replaceOp(op, result);
}

Value buddy::extractQuantized(RewriterBase &rewriter, tensor::ExtractOp extract,
                              PackingAttr packing) {
  rewriter.setInsertionPoint(extract);
  Location loc = extract.getLoc();
  Type type = extract.getType();
  Value element = QuantizedElementOp::create(
      rewriter, loc, rewriter.getF32Type(), extract.getTensor(),
      extract.getIndices()[0], extract.getIndices()[1], packing);
  return castFloat(rewriter, loc, element, type);
}
