//===- Blocks.cpp - the pieces of an attention task -----------------------===//
//
// Everything here is a linalg op on views of operands and of the thread's
// buffers. Between two blocks of keys, for each row: `max` is the largest score
// so far, `weight` the sum of exp(score - max) and `sum` that of exp(score -
// max) times values. A maximum starts at the lowest number, not at -inf, so
// that a row that sees nothing has weight 0 and no NaN.
//
//===----------------------------------------------------------------------===//

#include "../CastFloat.h"
#include "Attention.h"
#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Schedule.h"

using namespace mlir;
using namespace buddy;
using utils::IteratorType;

//===-- Building blocks ---------------------------------------------------===//

Value AttentionEmitter::scalar(OpBuilder &at, double value) {
  return arith::ConstantOp::create(at, b.getLoc(),
                                   b.getFloatAttr(compute, value));
}

Value AttentionEmitter::convert(OpBuilder &at, Value value, Type type) {
  return castFloat(at, b.getLoc(), value, type);
}

Value AttentionEmitter::part(Value memref, const Sizes &offsets,
                             const Sizes &sizes, ArrayRef<unsigned> dropped) {
  auto type = cast<MemRefType>(memref.getType());
  Sizes strides(type.getRank(), b.getIndexAttr(1));
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(sizes))
    if (!llvm::is_contained(dropped, dim))
      shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  auto result = memref::SubViewOp::inferRankReducedResultType(
      shape, type, offsets, sizes, strides);
  return memref::SubViewOp::create(b, cast<MemRefType>(result), memref, offsets,
                                   sizes, strides);
}

Value AttentionEmitter::head(Value buffer, OpFoldResult queries,
                             OpFoldResult columns, OpFoldResult offset) {
  Sizes from(2, b.getIndexAttr(0)), to = {queries, b.getIndexAttr(group)};
  if (columns) {
    from.push_back(offset ? offset : b.getIndexAttr(0));
    to.push_back(columns);
  }
  return part(buffer, from, to, {});
}

Value AttentionEmitter::rows(Value buffer, OpFoldResult rows,
                             OpFoldResult columns) {
  SmallVector<ReassociationIndices> groups = {{0, 1}};
  Sizes from = {b.getIndexAttr(0)}, to = {rows};
  if (columns) {
    groups.push_back({2});
    from.push_back(b.getIndexAttr(0));
    to.push_back(columns);
  }
  Value flat = memref::CollapseShapeOp::create(b, buffer, groups);
  return part(flat, from, to, {});
}

Value AttentionEmitter::slotPart(Value partial, const Task &task, Value slot,
                                 OpFoldResult columns) {
  Sizes offsets = {slot},
        sizes = {b.getIndexAttr(1), task.queries, b.getIndexAttr(group)};
  if (columns)
    sizes.push_back(columns);
  offsets.resize(sizes.size(), b.getIndexAttr(0));
  return part(partial, offsets, sizes, {0u});
}

Value AttentionEmitter::queryPart(Value operand, const Task &task, Value size) {
  Sizes offsets = getAsOpFoldResult(task.batch);
  Sizes sizes(batch, b.getIndexAttr(1));
  SmallVector<unsigned> dropped;
  for (unsigned i = 0; i < batch; ++i)
    dropped.push_back(i);
  offsets.push_back(mul(task.head, constant(group)));
  offsets.push_back(task.firstQuery);
  offsets.push_back(b.getIndexAttr(0));
  sizes.append({b.getIndexAttr(group), task.queries, getAsOpFoldResult(size)});
  return part(operand, offsets, sizes, dropped);
}

Value AttentionEmitter::keyPart(Value operand, const Task &task, Value first,
                                Value count, Value size) {
  Sizes offsets = getAsOpFoldResult(task.batch);
  Sizes sizes(batch + 1, b.getIndexAttr(1));
  SmallVector<unsigned> dropped;
  for (unsigned i = 0; i <= batch; ++i)
    dropped.push_back(i);
  offsets.append({task.head, first, b.getIndexAttr(0)});
  sizes.append({getAsOpFoldResult(count), getAsOpFoldResult(size)});
  return part(operand, offsets, sizes, dropped);
}

void AttentionEmitter::generic(ValueRange inputs, ValueRange outputs,
                               ArrayRef<ArrayRef<unsigned>> maps, unsigned dims,
                               bool reducesLast, Body body) {
  SmallVector<IteratorType> iterators(dims, IteratorType::parallel);
  if (reducesLast)
    iterators.back() = IteratorType::reduction;
  SmallVector<AffineMap> affine;
  for (ArrayRef<unsigned> map : maps)
    affine.push_back(
        AffineMap::getMultiDimMapWithTargets(dims, map, b.getContext()));
  linalg::GenericOp::create(
      b, inputs, outputs, affine, iterators,
      [&](OpBuilder &inner, Location loc, ValueRange args) {
        linalg::YieldOp::create(inner, loc, body(inner, args));
      });
}

void AttentionEmitter::fill(Value buffer, double value) {
  linalg::FillOp::create(b, scalar(b, value), buffer);
}

void AttentionEmitter::contract(Value lhs, Value rhs, Value result,
                                ArrayRef<ArrayRef<unsigned>> maps) {
  SmallVector<AffineMap> affine;
  for (ArrayRef<unsigned> map : maps)
    affine.push_back(
        AffineMap::getMultiDimMapWithTargets(3, map, b.getContext()));
  auto made =
      linalg::ContractOp::create(b, TypeRange(), ValueRange{lhs, rhs}, result,
                                 b.getAffineMapArrayAttr(affine));
  if (ScheduleAttr schedule =
          chooseSchedule(cast<linalg::LinalgOp>(made.getOperation()), target))
    made->setAttr(kScheduleAttr, schedule);
}

//===-- Buffers -----------------------------------------------------------===//

AttentionEmitter::Buffers AttentionEmitter::makeBuffers() {
  auto make = [&](ArrayRef<Value> columns) {
    SmallVector<int64_t> shape = {blockQueries, group};
    Values sizes;
    for (Value size : columns) {
      std::optional<int64_t> number = getConstantIntValue(size);
      shape.push_back(number.value_or(ShapedType::kDynamic));
      if (!number)
        sizes.push_back(size);
    }
    return createThreadBuffer(b, b.getLoc(), MemRefType::get(shape, compute),
                              sizes);
  };
  Buffers buffers;
  if (hasDepth())
    buffers.query = make(depth);
  // Rows of scores are one vector longer, so that they do not all fall into
  // the same sets of the cache.
  buffers.score = make(constant(blockKeys + lanes));
  buffers.sum = make(width);
  buffers.max = make({});
  buffers.weight = make({});
  buffers.rescale = make({});
  buffers.factor = make({});
  return buffers;
}

void AttentionEmitter::loadQueries(const Task &task, const Buffers &buffers) {
  if (!hasDepth())
    return;
  Value target = head(buffers.query, task.queries, getAsOpFoldResult(depth));
  generic(queryPart(op.getQuery(), task, depth), target, {{1, 0, 2}, {0, 1, 2}},
          3, /*reducesLast=*/false, [&](OpBuilder &at, ValueRange a) -> Values {
            return {arith::MulFOp::create(
                at, b.getLoc(), convert(at, a[0], compute),
                scalar(at, op.getScale().convertToDouble()))};
          });
}

void AttentionEmitter::clear(const Task &task, const Buffers &buffers) {
  double lowest =
      APFloat::getLargest(cast<FloatType>(compute).getFloatSemantics(),
                          /*Negative=*/true)
          .convertToDouble();
  fill(rows(buffers.max, task.rows), lowest);
  fill(rows(buffers.weight, task.rows), 0.0);
  fill(rows(buffers.sum, task.rows, getAsOpFoldResult(width)), 0.0);
}

//===-- One block of keys -------------------------------------------------===//

void AttentionEmitter::emitBlock(const Task &task, const Buffers &buffers,
                                 Value key) {
  Location loc = b.getLoc();
  Value count = minimum(constant(blockKeys), sub(task.endKey, key));
  Value padded = roundUp(count, constant(lanes));
  Value values = keyPart(op.getValue(), task, key, count, width);
  Value score = rows(buffers.score, task.rows, getAsOpFoldResult(count));
  fill(score, 0.0);
  if (hasDepth())
    contract(rows(buffers.query, task.rows, getAsOpFoldResult(depth)),
             keyPart(op.getKey(), task, key, count, depth), score,
             {{0, 2}, {1, 2}, {0, 1}});
  if (op.getMask())
    applyMask(task, buffers, key, count);
  hideColumns(task, buffers, key, count, padded);

  Value wide = rows(buffers.score, task.rows, getAsOpFoldResult(padded));
  Value max = rows(buffers.max, task.rows);
  Value weight = rows(buffers.weight, task.rows);
  Value rescale = rows(buffers.rescale, task.rows);
  Value sum = rows(buffers.sum, task.rows, getAsOpFoldResult(width));
  generic(max, rescale, {{0}, {0}}, 1, /*reducesLast=*/false,
          [&](OpBuilder &, ValueRange a) -> Values { return {a[0]}; });
  // A NaN need not be the maximum: its exponential is NaN in any case.
  generic(wide, max, {{0, 1}, {0}}, 2, /*reducesLast=*/true,
          [&](OpBuilder &at, ValueRange a) -> Values {
            return {arith::MaxNumFOp::create(at, loc, a[0], a[1])};
          });
  generic(max, {rescale, weight}, {{0}, {0}, {0}}, 1, /*reducesLast=*/false,
          [&](OpBuilder &at, ValueRange a) -> Values {
            Value factor = math::ExpOp::create(
                at, loc, arith::SubFOp::create(at, loc, a[1], a[0]));
            return {factor, arith::MulFOp::create(at, loc, a[2], factor)};
          });
  generic(max, {wide, weight}, {{0}, {0, 1}, {0}}, 2, /*reducesLast=*/true,
          [&](OpBuilder &at, ValueRange a) -> Values {
            Value exp = math::ExpOp::create(
                at, loc, arith::SubFOp::create(at, loc, a[1], a[0]));
            return {exp, arith::AddFOp::create(at, loc, exp, a[2])};
          });
  generic(rescale, sum, {{0}, {0, 1}}, 2, /*reducesLast=*/false,
          [&](OpBuilder &at, ValueRange a) -> Values {
            return {arith::MulFOp::create(at, loc, a[0], a[1])};
          });
  contract(score, values, sum, {{0, 2}, {2, 1}, {0, 1}});
}

void AttentionEmitter::applyMask(const Task &task, const Buffers &buffers,
                                 Value key, Value count) {
  Location loc = b.getLoc();
  auto type = cast<MemRefType>(op.getMask().getType());
  // Aligned at the last dimension; a dimension of size 1 is broadcast.
  Sizes offsets, sizes;
  SmallVector<unsigned> dropped, map;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    unsigned dim = batch + 3 - type.getRank() + i;
    OpFoldResult offset = b.getIndexAttr(0), size = b.getIndexAttr(1);
    if (type.getDimSize(i) == 1 || dim < batch) {
      if (type.getDimSize(i) != 1)
        offset = task.batch[dim];
      dropped.push_back(i);
    } else if (dim == batch) {
      offset = mul(task.head, constant(group));
      size = b.getIndexAttr(group);
      map.push_back(1);
    } else if (dim == batch + 1) {
      offset = task.firstQuery;
      size = task.queries;
      map.push_back(0);
    } else {
      offset = key;
      size = getAsOpFoldResult(count);
      map.push_back(2);
    }
    offsets.push_back(offset);
    sizes.push_back(size);
  }
  Value mask = part(op.getMask(), offsets, sizes, dropped);
  Value score = head(buffers.score, task.queries, getAsOpFoldResult(count));
  generic(mask, score, {map, {0, 1, 2}}, 3, /*reducesLast=*/false,
          [&](OpBuilder &at, ValueRange a) -> Values {
            if (isa<FloatType>(a[0].getType()))
              return {arith::AddFOp::create(at, loc, a[1],
                                            convert(at, a[0], compute))};
            Value attends = a[0];
            if (!attends.getType().isInteger(1))
              attends = arith::CmpIOp::create(
                  at, loc, arith::CmpIPredicate::ne, attends,
                  arith::ConstantOp::create(at, loc,
                                            at.getZeroAttr(attends.getType())));
            return {arith::SelectOp::create(
                at, loc, attends, a[1],
                scalar(at, -std::numeric_limits<double>::infinity()))};
          });
}

void AttentionEmitter::hideColumns(const Task &task, const Buffers &buffers,
                                   Value key, Value count, Value padded) {
  Location loc = b.getLoc();
  // Keys of this block that the first query sees: columns before are whole.
  Value seen = count, offset;
  if (causal) {
    offset = add(sub(add(task.firstQuery, diagonal), key), constant(1));
    seen = minimum(count, maximum(offset, constant(0)));
  }
  Value first =
      sub(seen, b.createOrFold<arith::RemUIOp>(seen, constant(lanes)));
  Value any =
      b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, first, padded);
  scf::IfOp::create(b, any, [&](OpBuilder &, Location) {
    Value score =
        head(buffers.score, task.queries, getAsOpFoldResult(sub(padded, first)),
             getAsOpFoldResult(first));
    generic({}, score, {{0, 1, 2}}, 3, /*reducesLast=*/false,
            [&](OpBuilder &at, ValueRange a) -> Values {
              Value column = arith::AddIOp::create(
                  at, loc, linalg::IndexOp::create(at, loc, 2), first);
              Value limit = count;
              if (causal)
                limit = arith::MinSIOp::create(
                    at, loc, limit,
                    arith::AddIOp::create(
                        at, loc, linalg::IndexOp::create(at, loc, 0), offset));
              Value visible = arith::CmpIOp::create(
                  at, loc, arith::CmpIPredicate::slt, column, limit);
              return {arith::SelectOp::create(
                  at, loc, visible, a[0],
                  scalar(at, -std::numeric_limits<double>::infinity()))};
            });
    scf::YieldOp::create(b);
  });
}

//===-- Results -----------------------------------------------------------===//

void AttentionEmitter::storeResult(const Task &task, const Buffers &buffers) {
  Location loc = b.getLoc();
  Value sum = head(buffers.sum, task.queries, getAsOpFoldResult(width));
  Value weight = head(buffers.weight, task.queries);
  generic({sum, weight}, queryPart(op.getInit(), task, width),
          {{0, 1, 2}, {0, 1}, {1, 0, 2}}, 3, /*reducesLast=*/false,
          [&](OpBuilder &at, ValueRange a) -> Values {
            // A row that attends nothing is 0, not 0 / 0.
            Value none = arith::CmpFOp::create(
                at, loc, arith::CmpFPredicate::OEQ, a[1], scalar(at, 0.0));
            Value divisor =
                arith::SelectOp::create(at, loc, none, scalar(at, 1.0), a[1]);
            return {convert(at, arith::DivFOp::create(at, loc, a[0], divisor),
                            element)};
          });
}

void AttentionEmitter::storePartial(const Task &task, const Buffers &buffers) {
  auto copy = [&](Value from, Value to) {
    SmallVector<unsigned> all = {0, 1, 2};
    all.resize(cast<MemRefType>(from.getType()).getRank());
    generic(from, to, {all, all}, all.size(), /*reducesLast=*/false,
            [&](OpBuilder &, ValueRange a) -> Values { return {a[0]}; });
  };
  OpFoldResult columns = getAsOpFoldResult(width);
  copy(head(buffers.sum, task.queries, columns),
       slotPart(partialSum, task, task.slot, columns));
  copy(head(buffers.max, task.queries), slotPart(partialMax, task, task.slot));
  copy(head(buffers.weight, task.queries),
       slotPart(partialWeight, task, task.slot));
}

void AttentionEmitter::addPartial(const Task &task, const Buffers &buffers,
                                  Value slot) {
  Location loc = b.getLoc();
  OpFoldResult columns = getAsOpFoldResult(width);
  Value max = head(buffers.max, task.queries);
  Value weight = head(buffers.weight, task.queries);
  Value rescale = head(buffers.rescale, task.queries);
  Value sum = head(buffers.sum, task.queries, columns);
  Value factor = head(buffers.factor, task.queries);
  // `rescale` is the factor of the old sums, `factor` that of the new ones.
  generic(
      {slotPart(partialMax, task, slot), slotPart(partialWeight, task, slot)},
      {max, weight, rescale, factor},
      {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}, 2,
      /*reducesLast=*/false, [&](OpBuilder &at, ValueRange a) -> Values {
        Value newMax = arith::MaxNumFOp::create(at, loc, a[0], a[2]);
        Value before = math::ExpOp::create(
            at, loc, arith::SubFOp::create(at, loc, a[2], newMax));
        Value here = math::ExpOp::create(
            at, loc, arith::SubFOp::create(at, loc, a[0], newMax));
        Value total = arith::AddFOp::create(
            at, loc, arith::MulFOp::create(at, loc, a[3], before),
            arith::MulFOp::create(at, loc, a[1], here));
        return {newMax, total, before, here};
      });
  generic({slotPart(partialSum, task, slot, columns), rescale, factor}, sum,
          {{0, 1, 2}, {0, 1}, {0, 1}, {0, 1, 2}}, 3, /*reducesLast=*/false,
          [&](OpBuilder &at, ValueRange a) -> Values {
            return {arith::AddFOp::create(
                at, loc, arith::MulFOp::create(at, loc, a[3], a[1]),
                arith::MulFOp::create(at, loc, a[0], a[2]))};
          });
}
