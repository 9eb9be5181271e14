//===- Contraction.cpp - a linalg contraction seen as a matrix product ----===//

#include "Contraction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace buddy;

Type Contraction::Operand::elementType() const {
  return cast<ShapedType>(value.getType()).getElementType();
}

std::optional<unsigned> Contraction::Operand::position(unsigned dim) const {
  return map.getResultPosition(getAffineDimExpr(dim, map.getContext()));
}

bool Contraction::Operand::isContiguousAlong(unsigned dim) const {
  std::optional<unsigned> p = position(dim);
  return p && strides[*p] == 1;
}

bool Contraction::multipliesBFloat16() const {
  auto isExact = [](const Operand &operand) {
    return operand.elementType().isBF16() &&
           llvm::all_of(operand.casts, llvm::IsaPred<arith::ExtFOp>);
  };
  return accumulator.isF32() && isExact(a) && isExact(b);
}

/// Strides of a memref, or of a tensor as if laid out row-major.
static std::optional<SmallVector<int64_t>> getStrides(Type type) {
  if (auto memref = dyn_cast<MemRefType>(type)) {
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(memref.getStridesAndOffset(strides, offset)))
      return std::nullopt;
    return strides;
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return std::nullopt;
  SmallVector<int64_t> strides(tensor.getRank());
  int64_t stride = 1;
  for (int64_t i = tensor.getRank() - 1; i >= 0; --i) {
    strides[i] = stride;
    bool known = !ShapedType::isDynamic(stride) && !tensor.isDynamicDim(i);
    stride = known ? stride * tensor.getDimSize(i) : ShapedType::kDynamic;
  }
  return strides;
}

/// Follows cast ops from a factor up to the block argument it comes from.
static BlockArgument traceCasts(Value factor,
                                SmallVectorImpl<Operation *> &casts) {
  while (Operation *def = factor.getDefiningOp()) {
    if (!isa<CastOpInterface>(def) || def->getNumOperands() != 1 ||
        !isa<arith::ArithDialect>(def->getDialect()))
      return {};
    casts.push_back(def);
    factor = def->getOperand(0);
  }
  std::reverse(casts.begin(), casts.end());
  return dyn_cast<BlockArgument>(factor);
}

/// Matches the body and fills in the operands' casts.
static bool matchBody(Block &body, Contraction &c) {
  if (body.getNumArguments() != 3)
    return false;
  Operation *add = body.getTerminator()->getOperand(0).getDefiningOp();
  if (!add || !isa<arith::AddFOp, arith::AddIOp>(add))
    return false;
  BlockArgument sum = body.getArgument(2);
  if (add->getOperand(0) != sum && add->getOperand(1) != sum)
    return false;
  Value product = add->getOperand(add->getOperand(0) == sum ? 1 : 0);
  Operation *mul = product.getDefiningOp();
  if (!mul || !isa<arith::MulFOp, arith::MulIOp>(mul))
    return false;
  SmallVector<Operation *> lhsCasts, rhsCasts;
  BlockArgument lhs = traceCasts(mul->getOperand(0), lhsCasts);
  BlockArgument rhs = traceCasts(mul->getOperand(1), rhsCasts);
  if (lhs == body.getArgument(1) && rhs == body.getArgument(0)) {
    std::swap(lhs, rhs);
    std::swap(lhsCasts, rhsCasts);
  }
  if (lhs != body.getArgument(0) || rhs != body.getArgument(1))
    return false;
  c.a.casts = lhsCasts;
  c.b.casts = rhsCasts;
  return true;
}

/// The best candidate by `score`, the last of equals; none if there is none.
static std::optional<unsigned>
pickDim(ArrayRef<unsigned> candidates,
        llvm::function_ref<int(unsigned)> score) {
  std::optional<unsigned> best;
  for (unsigned dim : candidates)
    if (!best || score(dim) >= score(*best))
      best = dim;
  return best;
}

std::optional<Contraction> Contraction::match(linalg::LinalgOp op) {
  if (!linalg::isaContractionOpInterface(op))
    return std::nullopt;
  Contraction c;
  c.op = op;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Operand *operands[] = {&c.a, &c.b, &c.c};
  for (auto [i, operand] : llvm::enumerate(operands)) {
    operand->value = op->getOperand(i);
    operand->map = maps[i];
    std::optional<SmallVector<int64_t>> strides =
        getStrides(operand->value.getType());
    if (!strides)
      return std::nullopt;
    operand->strides = *strides;
  }
  c.accumulator = c.c.elementType();
  if (!matchBody(op->getRegion(0).front(), c))
    return std::nullopt;
  if (isa<Float16Type, BFloat16Type>(c.accumulator))
    c.accumulator = Float32Type::get(op.getContext());
  bool summable = isa<Float32Type, Float64Type>(c.accumulator) ||
                  (isa<IntegerType>(c.accumulator) &&
                   c.accumulator.getIntOrFloatBitWidth() >= 8);
  if (!summable)
    return std::nullopt;

  c.sizes = op.getStaticLoopRanges();
  auto isUnit = [&](unsigned dim) { return c.sizes[dim] == 1; };
  SmallVector<unsigned> columns, reductions;
  for (unsigned dim = 0; dim < c.sizes.size(); ++dim) {
    bool inA = c.a.has(dim), inB = c.b.has(dim), inC = c.c.has(dim);
    if (inC && inA != inB)
      columns.push_back(dim);
    else if (!inC && inA && inB)
      reductions.push_back(dim);
  }
  // Where C is contiguous, results are stored as vectors; where the operand is
  // too, no packing is needed. A dimension of size 1 fills no vector.
  std::optional<unsigned> col = pickDim(columns, [&](unsigned dim) {
    Operand &factor = c.a.has(dim) ? c.a : c.b;
    return (isUnit(dim) ? 0 : 8) + (c.c.isContiguousAlong(dim) ? 4 : 0) +
           (factor.isContiguousAlong(dim) ? 2 : 0);
  });
  if (!col)
    return std::nullopt;
  c.col = *col;
  if (c.a.has(c.col))
    std::swap(c.a, c.b);
  std::optional<unsigned> red = pickDim(reductions, [&](unsigned dim) {
    return (isUnit(dim) ? 0 : 4) + (c.b.isContiguousAlong(dim) ? 2 : 0) +
           (c.a.isContiguousAlong(dim) ? 1 : 0);
  });
  if (!red)
    return std::nullopt;
  c.red = *red;
  SmallVector<unsigned> rows;
  for (unsigned dim = 0; dim < c.sizes.size(); ++dim)
    if (c.c.has(dim) && c.a.has(dim) && !c.b.has(dim))
      rows.push_back(dim);
  c.row = pickDim(rows, [&](unsigned dim) { return isUnit(dim) ? 0 : 1; });
  for (unsigned dim = 0; dim < c.sizes.size(); ++dim) {
    if (dim == c.col || dim == c.red || dim == c.row)
      continue;
    (c.c.has(dim) ? c.outerParallel : c.outerReductions).push_back(dim);
  }
  return c;
}

bool buddy::isZeroFill(linalg::LinalgOp op) {
  if (op.getNumDpsInits() != 1 ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isPermutation())
    return false;
  Block &body = op->getRegion(0).front();
  Value value = body.getTerminator()->getOperand(0);
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    if (arg.getOwner() == &body)
      value = op->getOperand(arg.getArgNumber());
    else
      return false;
  }
  return matchPattern(value, m_Zero()) || matchPattern(value, m_AnyZeroFloat());
}
