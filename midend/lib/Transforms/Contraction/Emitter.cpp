//===- Emitter.cpp - what all contraction kernels share -------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace buddy;

ContractionEmitter::ContractionEmitter(OpBuilder &builder,
                                       Contraction contraction,
                                       ScheduleAttr schedule, bool fromZero,
                                       std::optional<Epilogue> epilogue)
    : IndexBuilder(contraction.op.getLoc(), builder), c(std::move(contraction)),
      schedule(schedule), fromZero(fromZero), epilogue(std::move(epilogue)),
      unit(schedule.getPairs() && c.multipliesBFloat16() ? 2 : 1) {
  for (Range &range : c.op.createLoopRanges(b, b.getLoc()))
    sizes.push_back(getValueOrCreateConstantIndexOp(b, b.getLoc(), range.size));
  outer.resize(sizes.size());
  rowCount = c.row ? sizes[*c.row] : constant(1);
  vectorLength = constant(schedule.getVl());
  if (schedule.getScalable())
    vectorLength = mul(vectorLength, vector::VectorScaleOp::create(b));
  work = constant(2);
  for (Value size : sizes)
    work = mul(work, size);
  packsA = unit == 1 ? c.a.elementType() != c.accumulator
                     : !c.a.isContiguousAlong(c.red);
  usesScratch = this->epilogue || c.c.elementType() != c.accumulator ||
                !c.c.isContiguousAlong(c.col);
}

void ContractionEmitter::emit() {
  bool columnsInB = c.b.isContiguousAlong(c.col);
  bool reductionInBoth =
      c.a.isContiguousAlong(c.red) && c.b.isContiguousAlong(c.red);
  if (c.b.panels) {
    int64_t rank = cast<MemRefType>(c.b.value.getType()).getRank();
    SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
    if (rank == 4)
      groups[1].push_back(3);
    panels = memref::CollapseShapeOp::create(b, c.b.value, groups);
  }
  if (c.c.isContiguousAlong(c.col))
    makeLast(c.c, c.col);
  if (c.a.isContiguousAlong(c.red))
    makeLast(c.a, c.red);
  else if (unit > 1 && c.row && c.a.isContiguousAlong(*c.row))
    makeLast(c.a, *c.row);
  // One column is contiguous in any direction, and is no vector. Sums of
  // several reductions would be rounded several times.
  bool dots = schedule.getDotM() > 0 && reductionInBoth &&
              (!columnsInB || c.sizes[c.col] == 1) &&
              (c.outerReductions.empty() ||
               (!epilogue && c.c.elementType() == c.accumulator));
  if (columnsInB && !dots)
    makeLast(c.b, c.col);
  else if (c.b.isContiguousAlong(c.red))
    makeLast(c.b, c.red);

  // For at least so many rows.
  auto wide = [&](int64_t least) {
    auto vectors = [&] {
      emitOuterProduct(schedule.getMr(), schedule.getNr());
    };
    if (!mayUseTiles())
      return vectors();
    if (least >= schedule.getTileM())
      return emitMatrixProduct();
    ifElse(lessThan(rowCount, constant(schedule.getTileM())), vectors,
           [&] { emitMatrixProduct(); });
  };
  if (dots) {
    ifElse(
        lessThan(constant(schedule.getDotM()), rowCount),
        [&] { wide(schedule.getDotM() + 1); }, [&] { emitDotProduct(); });
    return;
  }
  // The accumulators that one row leaves free go to more columns, which also
  // makes for longer runs of memory.
  int64_t vectors = std::max<int64_t>(
      schedule.getNr(), std::min<int64_t>(4, schedule.getMr() / 2));
  int64_t columns = c.sizes[c.col];
  if (schedule.getScalable() || !columnsInB)
    return wide(1);
  if (!ShapedType::isDynamic(columns))
    vectors =
        std::min<int64_t>(vectors, llvm::divideCeil(columns, schedule.getVl()));
  ifElse(
      lessThan(constant(1), rowCount), [&] { wide(2); },
      [&] { emitOuterProduct(1, std::max<int64_t>(vectors, 1)); });
}

Value ContractionEmitter::bothOf(Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return b.createOrFold<arith::AndIOp>(lhs, rhs);
}

//===-- Control flow
//--------------------------------------------------------===//

SmallVector<Value> ContractionEmitter::forLoop(
    Value lower, Value upper, Value step, ValueRange init,
    llvm::function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(
      b, lower, upper, step, init,
      [&](OpBuilder &, Location, Value iv, ValueRange carried) {
        scf::YieldOp::create(b, body(iv, carried));
      });
  return llvm::to_vector(ValueRange(loop.getResults()));
}

void ContractionEmitter::forLoop(Value lower, Value upper, Value step,
                                 llvm::function_ref<void(Value)> body) {
  forLoop(lower, upper, step, {}, [&](Value iv, ValueRange) {
    body(iv);
    return Values();
  });
}

SmallVector<Value>
ContractionEmitter::ifElse(Value condition, TypeRange types,
                           llvm::function_ref<Values()> then,
                           llvm::function_ref<Values()> otherwise) {
  if (std::optional<int64_t> known = getConstantIntValue(condition))
    return *known ? then() : otherwise();
  // The op stands before its branches are filled: they have to see whether
  // they are inside of a parallel region.
  auto branch = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  auto fill = [&](mlir::Block *block, llvm::function_ref<Values()> body) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(block);
    Values results = body();
    if (!types.empty())
      scf::YieldOp::create(b, results);
  };
  fill(branch.thenBlock(), then);
  fill(branch.elseBlock(), otherwise);
  return llvm::to_vector(ValueRange(branch.getResults()));
}

void ContractionEmitter::ifElse(Value condition,
                                llvm::function_ref<void()> then,
                                llvm::function_ref<void()> otherwise) {
  ifElse(
      condition, {}, [&] { return then(), Values(); },
      [&] { return otherwise(), Values(); });
}

void ContractionEmitter::forRowTiles(
    Value lower, Value upper, int64_t largest, int64_t total,
    llvm::function_ref<void(Value, int64_t)> body) {
  Value start = lower;
  for (int64_t rows = largest; rows > 0;
       rows = rows == 1 ? 0 : llvm::PowerOf2Ceil(rows) / 2) {
    bool occurs = ShapedType::isDynamic(total) || total >= rows;
    if (!ShapedType::isDynamic(total))
      total %= rows;
    if (!occurs)
      continue;
    Value end = add(start, roundDown(sub(upper, start), constant(rows)));
    forLoop(start, end, constant(rows), [&](Value row) { body(row, rows); });
    start = end;
  }
}

void ContractionEmitter::forOuterReductions(
    llvm::function_ref<void(Value, Value)> body) {
  std::function<void(unsigned, Value, Value)> nest =
      [&](unsigned i, Value isFirst, Value isLast) {
        if (i == c.outerReductions.size())
          return body(isFirst, isLast);
        unsigned dim = c.outerReductions[i];
        forLoop(constant(0), sizes[dim], constant(1), [&](Value iv) {
          outer[dim] = iv;
          nest(i + 1, bothOf(isFirst, equal(iv, constant(0))),
               bothOf(isLast, equal(iv, sub(sizes[dim], constant(1)))));
        });
      };
  nest(0, Value(), Value());
}

//===-- Elements
//------------------------------------------------------------===//

VectorType ContractionEmitter::vectorType(Type element) {
  return VectorType::get({schedule.getVl()}, element, {schedule.getScalable()});
}

VectorType ContractionEmitter::factorType() {
  if (unit == 1)
    return vectorType(c.accumulator);
  return VectorType::get({unit * schedule.getVl()}, packedType());
}

Value ContractionEmitter::zero(Type type) {
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

SmallVector<Value>
ContractionEmitter::indices(const Contraction::Operand &operand, Value row,
                            Value col, Value red) {
  Values result;
  for (AffineExpr expr : operand.map.getResults()) {
    unsigned dim = cast<AffineDimExpr>(expr).getPosition();
    Value index = c.row == dim   ? row
                  : c.col == dim ? col
                  : c.red == dim ? red
                                 : outer[dim];
    assert(index && "index of a dimension the operand has");
    result.push_back(index);
  }
  return result;
}

Value ContractionEmitter::convert(const Contraction::Operand &operand,
                                  Value loaded) {
  if (unit > 1)
    return loaded;
  auto like = [&](Type element) -> Type {
    if (auto vector = dyn_cast<VectorType>(loaded.getType()))
      return vector.clone(element);
    return element;
  };
  for (Operation *cast : operand.casts) {
    OperationState state(b.getLoc(), cast->getName(), loaded,
                         like(cast->getResult(0).getType()), cast->getAttrs());
    loaded = b.create(state)->getResult(0);
  }
  if (getElementTypeOrSelf(loaded.getType()) != c.accumulator)
    loaded = arith::ExtFOp::create(b, like(c.accumulator), loaded);
  return loaded;
}

Value ContractionEmitter::loadScalar(const Contraction::Operand &operand,
                                     ValueRange at) {
  return convert(operand, memref::LoadOp::create(b, operand.value, at));
}

Value ContractionEmitter::loadElements(VectorType type, Value from,
                                       ValueRange at, Value mask) {
  if (!mask)
    return vector::LoadOp::create(b, type, from, at);
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  return vector::MaskedLoadOp::create(b, type, from, at, mask, zero);
}

Value ContractionEmitter::loadVector(const Contraction::Operand &operand,
                                     ValueRange at, Value mask) {
  return convert(operand, loadElements(vectorType(operand.elementType()),
                                       operand.value, at, mask));
}

Value ContractionEmitter::loadFactors(const Contraction::Operand &operand,
                                      ValueRange at, Value mask) {
  if (unit == 1)
    return loadVector(operand, at, mask);
  return loadElements(factorType(), operand.value, at, mask);
}

Value ContractionEmitter::loadSum(Value row, Value col) {
  Value v =
      memref::LoadOp::create(b, c.c.value, indices(c.c, row, col, Value()));
  if (v.getType() != c.accumulator)
    v = arith::ExtFOp::create(b, c.accumulator, v);
  return v;
}

Value ContractionEmitter::narrow(Value value) {
  Type element = c.c.elementType();
  if (element == c.accumulator)
    return value;
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(element);
  return arith::TruncFOp::create(b, type, value);
}

Value ContractionEmitter::multiplyAdd(Value lhs, Value rhs, Value sum) {
  if (unit > 1)
    return x86vector::DotBF16Op::create(b, sum, lhs, rhs);
  if (isa<FloatType>(c.accumulator))
    return vector::FMAOp::create(b, lhs, rhs, sum);
  return arith::AddIOp::create(b, sum, arith::MulIOp::create(b, lhs, rhs));
}

void ContractionEmitter::makeLast(Contraction::Operand &operand, unsigned dim) {
  unsigned position = *operand.position(dim);
  unsigned rank = operand.strides.size();
  if (position + 1 == rank)
    return;
  SmallVector<unsigned> order;
  for (unsigned i = 0; i < rank; ++i)
    if (i != position)
      order.push_back(i);
  order.push_back(position);
  AffineMap permutation = AffineMap::getPermutationMap(order, b.getContext());
  operand.value = memref::TransposeOp::create(b, operand.value,
                                              AffineMapAttr::get(permutation));
  operand.map = permutation.compose(operand.map);
  operand.strides =
      applyPermutationMap(permutation, ArrayRef<int64_t>(operand.strides));
}
