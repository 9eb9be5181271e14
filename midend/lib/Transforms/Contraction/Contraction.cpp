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

/// Reads an indexing map as that of an operand in panels: replaces it by the
/// map to column and reduction. The type has to be contiguous and of panels.
static std::optional<Contraction::Operand::Panels>
matchPanels(AffineMap &map, ShapedType type) {
  auto memref = dyn_cast<MemRefType>(type);
  unsigned rank = map.getNumResults();
  if ((rank != 3 && rank != 4) || (memref && !memref.getLayout().isIdentity()))
    return std::nullopt;
  int64_t width = type.getDimSize(2), unit = rank == 4 ? type.getDimSize(3) : 1;
  if (ShapedType::isDynamic(width) || ShapedType::isDynamic(unit))
    return std::nullopt;
  // Of the sums and products of dimensions only one fits.
  for (unsigned n = 0; n < map.getNumDims(); ++n)
    for (unsigned k = 0; k < map.getNumDims(); ++k) {
      AffineExpr col = getAffineDimExpr(n, map.getContext());
      AffineExpr red = getAffineDimExpr(k, map.getContext());
      if (n == k || width < 2 || (rank == 4) != (unit == 2))
        continue;
      auto panels = PanelsAttr::get(map.getContext(), 0, 0, width, unit, false);
      if (map.getResults() != ArrayRef<AffineExpr>(panels.index(col, red)))
        continue;
      map = AffineMap::get(map.getNumDims(), 0, {col, red}, map.getContext());
      return Contraction::Operand::Panels{width, unit};
    }
  return std::nullopt;
}

/// Reads an indexing map as that of an image whose windows are columns, as
/// `windows` describes them: replaces it by one to the outer dimensions, column
/// and reduction.
static bool matchWindows(AffineMap &map, WindowsAttr windows) {
  unsigned rank = map.getNumResults(), own = 1 + windows.getImage().size();
  MLIRContext *context = map.getContext();
  if (rank < own)
    return false;
  for (unsigned n = 0; n < map.getNumDims(); ++n)
    for (unsigned k = 0; k < map.getNumDims(); ++k) {
      AffineExpr col = getAffineDimExpr(n, context);
      AffineExpr red = getAffineDimExpr(k, context);
      if (n == k || map.getResults().take_back(own) !=
                        ArrayRef<AffineExpr>(windows.index(col, red)))
        continue;
      SmallVector<AffineExpr> results(map.getResults().drop_back(own));
      results.append({col, red});
      map = AffineMap::get(map.getNumDims(), 0, results, context);
      return true;
    }
  return false;
}

/// The op is a sum of products over projected permutations: each dimension is
/// one of the output or of both factors, all in two operands at least.
static bool isSumOfProducts(linalg::LinalgOp op, ArrayRef<AffineMap> maps) {
  if (maps.size() != 3 || op.getNumDpsInits() != 1 ||
      op->getNumRegions() != 1 || !op->getRegion(0).hasOneBlock())
    return false;
  SmallVector<utils::IteratorType> types = op.getIteratorTypesArray();
  SmallVector<unsigned> uses(types.size());
  for (AffineMap map : maps) {
    if (!map.isProjectedPermutation())
      return false;
    for (AffineExpr expr : map.getResults())
      ++uses[cast<AffineDimExpr>(expr).getPosition()];
  }
  for (auto [dim, type] : llvm::enumerate(types)) {
    AffineExpr expr = getAffineDimExpr(dim, op.getContext());
    bool inOutput = maps[2].getResultPosition(expr).has_value();
    if (uses[dim] < 2 || inOutput != (type == utils::IteratorType::parallel))
      return false;
  }
  return true;
}

bool Contraction::fits(ScheduleAttr schedule) const {
  if (b.windows)
    return !schedule.getScalable();
  if (!b.panels)
    return true;
  int64_t unit = schedule.getPairs() && multipliesBFloat16() ? 2 : 1;
  return !schedule.getScalable() && b.panels->unit == unit &&
         b.panels->width % (schedule.getNr() * schedule.getVl()) == 0;
}

std::optional<Contraction> Contraction::match(linalg::LinalgOp op) {
  if (op->getNumOperands() != 3)
    return std::nullopt;
  Contraction c;
  c.op = op;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Operand *operands[] = {&c.a, &c.b, &c.c};
  for (auto [i, operand] : llvm::enumerate(operands)) {
    operand->value = op->getOperand(i);
    auto type = dyn_cast<ShapedType>(operand->value.getType());
    if (!type)
      return std::nullopt;
    std::optional<SmallVector<int64_t>> strides = getStrides(type);
    if (!strides)
      return std::nullopt;
    operand->strides = *strides;
    if (i < 2 && (operand->panels = matchPanels(maps[i], type)))
      operand->strides.assign(2, ShapedType::kDynamic);
    if (auto windows = op->getAttrOfType<WindowsAttr>(kWindowsAttr);
        windows && i < 2 && !operand->panels && !c.a.windows &&
        matchWindows(maps[i], windows)) {
      operand->windows = windows;
      operand->strides.assign(maps[i].getNumResults(), ShapedType::kDynamic);
    }
    operand->map = maps[i];
  }
  bool inPanels = c.a.panels || c.b.panels;
  bool inWindows = c.a.windows || c.b.windows;
  if ((c.a.panels && c.b.panels) || (inPanels && inWindows) ||
      !(inPanels || inWindows ? isSumOfProducts(op, maps)
                              : linalg::isaContractionOpInterface(op)))
    return std::nullopt;
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
  if (inWindows) {
    AffineMap map = c.a.windows ? c.a.map : c.b.map;
    col = map.getDimPosition(map.getNumResults() - 2);
  }
  if (inPanels)
    col = (c.a.panels ? c.a : c.b).map.getDimPosition(0);
  if (!col || !llvm::is_contained(columns, *col))
    return std::nullopt;
  c.col = *col;
  if (c.a.has(c.col))
    std::swap(c.a, c.b);
  std::optional<unsigned> red = pickDim(reductions, [&](unsigned dim) {
    return (isUnit(dim) ? 0 : 4) + (c.b.isContiguousAlong(dim) ? 2 : 0) +
           (c.a.isContiguousAlong(dim) ? 1 : 0);
  });
  if (inWindows)
    red = c.b.map.getDimPosition(c.b.map.getNumResults() - 1);
  if (inPanels)
    red = c.b.map.getDimPosition(1);
  if (!red || !llvm::is_contained(reductions, *red))
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
