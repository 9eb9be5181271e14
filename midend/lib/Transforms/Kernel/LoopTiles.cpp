//===- LoopTiles.cpp - operands that lie across the innermost loop --------===//
//
// An operand whose adjacent elements belong to another loop than the outputs'
// (a transposed one) is read in square tiles: as many vectors as each has
// elements, along the operand's own direction, transposed in registers. Each
// line of the cache that a tile touches is used whole. A few rows that become
// neighbouring elements are interleaved instead.
//
//===----------------------------------------------------------------------===//

#include "LoopEmitter.h"

#include "buddy/Transforms/Parallel.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace buddy;

bool LoopEmitter::isAdjacent(OpOperand &operand, unsigned dim) {
  auto type = cast<MemRefType>(operand.get().getType());
  AffineMap map = op.getMatchingIndexingMap(&operand);
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  bool found = false;
  for (auto [expr, stride] : llvm::zip_equal(map.getResults(), strides)) {
    if (!expr.isFunctionOfDim(dim))
      continue;
    // Of a window, `point + element`, both are steps of one.
    AffineExpr rest = simplifyAffineExpr(
        expr - getAffineDimExpr(dim, op.getContext()), map.getNumDims(), 0);
    if (found || stride != 1 || rest.isFunctionOfDim(dim))
      return false;
    found = true;
  }
  return found;
}

bool LoopEmitter::isTransposed(OpOperand &operand) {
  return llvm::is_contained(transposed, &operand);
}

unsigned LoopEmitter::chooseInnermost(ArrayRef<unsigned> parallel) {
  for (unsigned dim : llvm::reverse(parallel)) {
    auto outputs = op.getDpsInitsMutable();
    if (llvm::all_of(outputs, [&](OpOperand &output) {
          return isa<MemRefType>(output.get().getType()) &&
                 isAdjacent(output, dim);
        }))
      return dim;
  }
  return parallel.back();
}

std::optional<unsigned> LoopEmitter::findTransposed(unsigned dim) {
  transposed.clear();
  std::optional<unsigned> across;
  auto iterators = op.getIteratorTypesArray();
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (!isa<MemRefType>(input->get().getType()) ||
        !op.getMatchingIndexingMap(input).isFunctionOfDim(dim) ||
        isAdjacent(*input, dim))
      continue;
    for (unsigned other = 0; other < op.getNumLoops() && !across; ++other)
      if (other != dim && iterators[other] == utils::IteratorType::parallel &&
          isAdjacent(*input, other))
        across = other;
    if (!across || !isAdjacent(*input, *across))
      return std::nullopt;
    transposed.push_back(input);
  }
  return across;
}

/// The transpose of as many vectors as each has elements, a power of two: in
/// each round the first half of them is interleaved with the second, so that
/// the bits of a row's and a column's number move round by one place.
static SmallVector<Value> transpose(OpBuilder &builder, Location loc,
                                    SmallVector<Value> rows) {
  int64_t count = rows.size();
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < count / 2; ++i) {
    low.append({i, count + i});
    high.append({count / 2 + i, count + count / 2 + i});
  }
  for (int64_t round = 1; round < count; round *= 2) {
    SmallVector<Value> next;
    for (int64_t i = 0; i < count / 2; ++i) {
      Value a = rows[i], b = rows[i + count / 2];
      next.push_back(vector::ShuffleOp::create(builder, loc, a, b, low));
      next.push_back(vector::ShuffleOp::create(builder, loc, a, b, high));
    }
    rows = std::move(next);
  }
  return rows;
}

void LoopEmitter::emitTile(unsigned across, const Step &step) {
  int64_t count = step.shape.getDimSize(0);
  Value row = ivs[across], column = ivs[step.dim];
  for (OpOperand *operand : transposed) {
    SmallVector<Value> lines;
    for (int64_t i = 0; i < count; ++i) {
      ivs[step.dim] =
          builder.createOrFold<arith::AddIOp>(loc, column, constant(i));
      lines.push_back(loadVector(*operand, step));
    }
    tiles[operand] = transpose(builder, loc, std::move(lines));
  }
  ivs[step.dim] = column;
  for (int64_t i = 0; i < count; ++i) {
    ivs[across] = builder.createOrFold<arith::AddIOp>(loc, row, constant(i));
    tileRow = i;
    point({}, step);
  }
  tiles.clear();
  ivs[across] = row;
}

bool LoopEmitter::emitTiles(ArrayRef<unsigned> parallel, Value work) {
  unsigned dim = parallel.back();
  if (!reductions.empty() || !movesAll(dim) || target.scalableVectors)
    return false;
  std::optional<unsigned> across = findTransposed(dim);
  VectorType shape = across ? chooseVector(dim) : VectorType();
  // A tile and its transpose fill the registers.
  int64_t count =
      shape ? std::min<int64_t>(shape.getDimSize(0), target.vectorRegisters / 2)
            : 0;
  auto isShort = [&](unsigned d) {
    int64_t size = op.getStaticLoopRanges()[d];
    return !ShapedType::isDynamic(size) && size < count;
  };
  if (!shape || count < 4 || isShort(dim) || isShort(*across)) {
    transposed.clear();
    return false;
  }
  Step step{VectorType::get({count}, builder.getI8Type()), dim, Value()};
  SmallVector<unsigned> outer;
  for (unsigned d : parallel)
    if (d != dim && d != *across)
      outer.push_back(d);
  outer.push_back(*across);
  SmallVector<Value> lower(outer.size(), constant(0)), upper,
      steps(outer.size(), constant(1));
  for (unsigned d : outer)
    upper.push_back(sizes[d]);
  steps.back() = constant(count);
  Value rest = arith::RemUIOp::create(builder, loc, sizes[dim], steps.back());
  Value end = arith::SubIOp::create(builder, loc, sizes[dim], rest);
  createParallelLoop(
      builder, loc, lower, upper, steps, work,
      [&](OpBuilder &, Location, ValueRange outerIvs) {
        for (auto [d, iv] : llvm::zip(outer, outerIvs))
          ivs[d] = iv;
        Value first = ivs[*across];
        Value next =
            arith::AddIOp::create(builder, loc, first, constant(count));
        Value last = arith::MinSIOp::create(builder, loc, next, sizes[*across]);
        Value isWhole = arith::CmpIOp::create(
            builder, loc, arith::CmpIPredicate::eq, next, last);
        // Of a part of a tile, and of what is left beside tiles, elements.
        Value tiled =
            arith::SelectOp::create(builder, loc, isWhole, end, constant(0));
        auto loop = scf::ForOp::create(builder, loc, constant(0), tiled,
                                       constant(count));
        {
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPointToStart(loop.getBody());
          ivs[dim] = loop.getInductionVar();
          emitTile(*across, step);
        }
        transposed.clear();
        auto rows = scf::ForOp::create(builder, loc, first, last, constant(1));
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(rows.getBody());
        ivs[*across] = rows.getInductionVar();
        emitInnermost(dim, tiled, sizes[dim]);
      });
  scalarReason.clear();
  return true;
}

//===----------------------------------------------------------------------===//
// Rows that become neighbouring elements
//===----------------------------------------------------------------------===//

bool LoopEmitter::interleaves(ArrayRef<unsigned> dims) {
  if (dims.size() < 2 || !reductions.empty() || op.getNumDpsInits() != 1 ||
      target.scalableVectors)
    return false;
  unsigned dim = dims[dims.size() - 2], last = dims.back();
  int64_t count = op.getStaticLoopRanges()[last];
  OpOperand &output = *op.getDpsInitOperand(0);
  auto type = cast<MemRefType>(output.get().getType());
  AffineMap map = op.getMatchingIndexingMap(&output);
  SmallVector<int64_t> strides;
  int64_t offset;
  if ((count != 2 && count != 4 && count != 8) || !map.isPermutation() ||
      failed(type.getStridesAndOffset(strides, offset)) ||
      !op.getMatchingBlockArgument(&output).use_empty())
    return false;
  unsigned rank = map.getNumResults();
  return map.getDimPosition(rank - 1) == last &&
         map.getDimPosition(rank - 2) == dim && strides[rank - 1] == 1 &&
         strides[rank - 2] == count && type.getDimSize(rank - 1) == count &&
         chooseVector(dim, /*outputs=*/false);
}

void LoopEmitter::emitInterleaved(unsigned dim, unsigned last, Value lower,
                                  Value upper) {
  VectorType shape = chooseVector(dim, /*outputs=*/false);
  int64_t count = op.getStaticLoopRanges()[last];
  OpOperand &output = *op.getDpsInitOperand(0);
  SmallVector<ReassociationIndices> groups;
  unsigned rank = op.getNumLoops();
  for (unsigned i = 0; i + 1 < rank; ++i)
    groups.push_back({int64_t(i)});
  groups.back().push_back(rank - 1);
  Value flat =
      memref::CollapseShapeOp::create(builder, loc, output.get(), groups);
  auto loop = [&](Value from, Value to, Value stride, auto body) {
    auto made = scf::ForOp::create(builder, loc, from, to, stride);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    body(made.getInductionVar());
  };
  Value lanes = vectorSize(shape);
  Value places = builder.createOrFold<arith::SubIOp>(loc, upper, lower);
  Value rest = arith::RemUIOp::create(builder, loc, places, lanes);
  Value end = arith::SubIOp::create(builder, loc, upper, rest);
  Step step{shape, dim, Value()};
  loop(lower, end, lanes, [&](Value iv) {
    ivs[dim] = iv;
    SmallVector<Value> parts;
    for (int64_t i = 0; i < count; ++i) {
      ivs[last] = constant(i);
      parts.push_back(body(Value(), step).front());
    }
    // Those half the count apart first, so that neighbours come last.
    while (parts.size() > 1) {
      SmallVector<Value> wider;
      size_t half = parts.size() / 2;
      for (size_t i = 0; i < half; ++i)
        wider.push_back(vector::InterleaveOp::create(builder, loc, parts[i],
                                                     parts[i + half]));
      parts = wider;
    }
    ivs[last] = constant(0);
    SmallVector<Value> at = indices(op.getMatchingIndexingMap(&output));
    at.pop_back();
    at.back() = arith::MulIOp::create(builder, loc, iv, constant(count));
    vector::StoreOp::create(builder, loc, parts.front(), flat, at);
  });
  loop(end, upper, constant(1), [&](Value iv) {
    ivs[dim] = iv;
    loop(constant(0), constant(count), constant(1), [&](Value inner) {
      ivs[last] = inner;
      point({}, Step());
    });
  });
  scalarReason.clear();
}
