//===- DotProduct.cpp - contractions by dot products ----------------------===//
//
// For few rows where both operands are contiguous along the reduction (a
// decoder's linear layer, y = x Wᵀ): each element of B is used once or a few
// times, so that the speed is that of memory. A tile streams several columns
// (rows of W) at once, which keeps several memory streams going.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "buddy/Transforms/Parallel.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace buddy;

/// Columns and, at most, rows of a tile; columns of a task.
static constexpr int64_t kColumns = 4, kRows = 4, kTaskColumns = 16;

void ContractionEmitter::emitDotProduct() {
  Values lower, upper, steps;
  for (unsigned dim : c.outerParallel) {
    lower.push_back(constant(0));
    upper.push_back(sizes[dim]);
    steps.push_back(constant(1));
  }
  lower.push_back(constant(0));
  upper.push_back(sizes[c.col]);
  steps.push_back(constant(kTaskColumns));
  createParallelLoop(
      b, b.getLoc(), lower, upper, steps, work,
      [&](OpBuilder &, Location, ValueRange ivs) {
        for (auto [dim, iv] : llvm::zip(c.outerParallel, ivs))
          outer[dim] = iv;
        Value start = ivs.back();
        Value end = minimum(sizes[c.col], add(start, constant(kTaskColumns)));
        Value whole =
            add(start, roundDown(sub(end, start), constant(kColumns)));
        auto columns = [&](Value from, Value to, int64_t count, Value isFirst) {
          forLoop(from, to, constant(count), [&](Value col) {
            forRowTiles(constant(0), rowCount,
                        std::min(kRows, schedule.getDotM()), c.staticRows(),
                        [&](Value row, int64_t rows) {
                          emitDotTile(row, rows, col, count, isFirst);
                        });
          });
        };
        forOuterReductions([&](Value isFirst, Value) {
          if (fromZero && !isFirst)
            isFirst = arith::ConstantIntOp::create(b, b.getI1Type(), 1);
          if (!fromZero)
            isFirst = Value();
          columns(start, whole, kColumns, isFirst);
          int64_t n = c.sizes[c.col];
          if (ShapedType::isDynamic(n) || n % kColumns != 0)
            columns(whole, end, 1, isFirst);
        });
        // The sums are in C. In a buffer of the thread, which aliases nothing,
        // LLVM would load A's rows ahead of the loop over columns, into more
        // registers than there are: with spills, 0.7 of the speed (bf16, one
        // row, K = 576).
        scratchC = Value();
        if (epilogue)
          emitEpilogue(constant(0), rowCount, start, end);
      });
}

void ContractionEmitter::emitDotTile(Value row, int64_t rows, Value col,
                                     int64_t cols, Value isFirst) {
  VectorType type = vectorType(c.accumulator);
  Value length = factorLength();
  // One step of `unroll` vectors along the reduction, each with sums of its
  // own so that enough multiply-adds are in flight.
  int64_t unroll = rows * cols >= 8 ? 1 : rows * cols >= 4 ? 2 : 4;
  int64_t tile = rows * cols;
  auto step = [&](Value k, Value mask, MutableArrayRef<Value> sums) {
    Values factors;
    for (int64_t i = 0; i < rows; ++i)
      factors.push_back(loadFactors(
          c.a, indices(c.a, add(row, constant(i)), Value(), k), mask));
    for (int64_t j = 0; j < cols; ++j) {
      Value v = loadFactors(
          c.b, indices(c.b, Value(), add(col, constant(j)), k), mask);
      for (int64_t i = 0; i < rows; ++i) {
        Value &sum = sums[i * cols + j];
        sum = multiplyAdd(factors[i], v, sum);
      }
    }
  };
  Value stride = mul(constant(unroll), length);
  Value whole = roundDown(sizes[c.red], stride);
  Values sums(unroll * tile, zero(type));
  sums = forLoop(constant(0), whole, stride, sums,
                 [&](Value k, ValueRange carried) {
                   Values next(carried);
                   for (int64_t u = 0; u < unroll; ++u)
                     step(add(k, mul(constant(u), length)), Value(),
                          MutableArrayRef<Value>(next).slice(u * tile, tile));
                   return next;
                 });
  for (int64_t u = 1; u < unroll; ++u)
    for (int64_t i = 0; i < tile; ++i)
      sums[i] = isa<FloatType>(c.accumulator)
                    ? arith::AddFOp::create(b, sums[i], sums[u * tile + i])
                          .getResult()
                    : arith::AddIOp::create(b, sums[i], sums[u * tile + i])
                          .getResult();
  sums.resize(tile);
  sums = forLoop(whole, sizes[c.red], length, sums,
                 [&](Value k, ValueRange carried) {
                   Values next(carried);
                   Value lanes = minimum(sub(sizes[c.red], k), length);
                   step(k,
                        vector::CreateMaskOp::create(
                            b, factorType().clone(b.getI1Type()), lanes),
                        next);
                   return next;
                 });
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      Value sum = vector::ReductionOp::create(
          b, vector::CombiningKind::ADD, sums[i * cols + j],
          isa<FloatType>(c.accumulator) ? arith::FastMathFlags::reassoc
                                        : arith::FastMathFlags::none);
      Values at =
          indices(c.c, add(row, constant(i)), add(col, constant(j)), Value());
      auto old = [&] {
        return Values{loadSum(add(row, constant(i)), add(col, constant(j)))};
      };
      Value before =
          isFirst ? ifElse(
                        isFirst, c.accumulator,
                        [&] { return Values{zero(c.accumulator)}; }, old)[0]
                  : old()[0];
      sum = isa<FloatType>(c.accumulator)
                ? arith::AddFOp::create(b, sum, before).getResult()
                : arith::AddIOp::create(b, sum, before).getResult();
      memref::StoreOp::create(b, narrow(sum), c.c.value, at);
    }
  }
}
