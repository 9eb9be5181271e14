//===- Packing.cpp - operands in buffers of a thread ----------------------===//
//
// Buffers lie on the stack of the thread that runs a task and hold factors as
// the multiply-add takes them, so that elements are converted once and not at
// every use: accumulators, [k][width], or pairs of bf16, [k / 2][width][2] with
// zero as the second of an odd last one. Columns beyond the end get copies of
// the last column or zeros: they are computed and never stored.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace buddy;

Type ContractionEmitter::packedType() {
  return unit == 1 ? c.accumulator : b.getBF16Type();
}

Value ContractionEmitter::packedIndex(Value k, Value width, Value n) {
  if (unit == 1)
    return add(mul(k, width), n);
  Value second = b.createOrFold<arith::RemUIOp>(k, constant(unit));
  return add(add(mul(sub(k, second), width), mul(n, constant(unit))), second);
}

Value ContractionEmitter::stackBuffer(int64_t elements, Type element) {
  // Once a thread, above its loop over tasks: inside the loop it would be
  // allocated in each iteration, and the loop's allocation scope could not be
  // removed.
  OpBuilder::InsertionGuard guard(b);
  auto parallel =
      b.getInsertionBlock()->getParentOp()->getParentOfType<omp::ParallelOp>();
  b.setInsertionPointToStart(&parallel.getRegion().front());
  return memref::AllocaOp::create(b, MemRefType::get({elements}, element),
                                  b.getI64IntegerAttr(64));
}

void ContractionEmitter::packB(const Panel &panel, const Block &block) {
  if (c.b.isContiguousAlong(c.col)) {
    // Scalable masked loads exist for types with arithmetic only, and bf16
    // need not have it.
    bool masks = !schedule.getScalable() || c.b.elementType() == c.accumulator;
    if (!panel.isEdge)
      return packContiguous(panel, block, /*masked=*/false);
    return ifElse(
        panel.isEdge,
        [&] {
          masks ? packContiguous(panel, block, /*masked=*/true)
                : packByElement(panel, block);
        },
        [&] { packContiguous(panel, block, /*masked=*/false); });
  }
  if (c.b.windows)
    return packWindows(panel, block);
  if (!c.b.isContiguousAlong(c.red))
    return packByElement(panel, block);
  if (schedule.getScalable())
    return packByScatter(panel, block);
  packTransposed(panel, block);
}

void ContractionEmitter::packContiguous(const Panel &panel, const Block &block,
                                        bool masked) {
  Block direct = block;
  direct.packedB = Value();
  direct.masked = masked;
  auto step = [&](Value k, bool half) {
    for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
      Value v = loadColumns(panel, direct, j, k, half);
      Value at = add(mul(k, panel.width), mul(offset, constant(unit)));
      vector::StoreOp::create(b, v, block.packedB, at);
    }
  };
  Value whole = roundDown(block.redCount, constant(unit));
  forLoop(constant(0), whole, constant(unit),
          [&](Value k) { step(k, /*half=*/false); });
  if (unit > 1)
    forLoop(whole, block.redCount, constant(unit),
            [&](Value k) { step(k, /*half=*/true); });
}

SmallVector<Value> ContractionEmitter::transpose(Values rows) {
  // Eklundh's algorithm: exchange off-diagonal blocks of size 1, 2, 4, …
  int64_t n = rows.size();
  for (int64_t d = 1; d < n; d *= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < n; ++i) {
      low.push_back(i & d ? n + (i ^ d) : i);
      high.push_back(i & d ? n + i : i | d);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i & d)
        continue;
      Value first = rows[i], second = rows[i | d];
      rows[i] = vector::ShuffleOp::create(b, first, second, low);
      rows[i | d] = vector::ShuffleOp::create(b, first, second, high);
    }
  }
  return rows;
}

void ContractionEmitter::packTransposed(const Panel &panel,
                                        const Block &block) {
  int64_t vl = schedule.getVl();
  // Pairs move as words.
  VectorType word = vectorType(unit == 1 ? c.accumulator : b.getI32Type());
  Value length = factorLength();
  Value last = sub(sizes[c.col], constant(1));
  for (Value offset : panel.offsets) {
    Values columns;
    for (int64_t i = 0; i < vl; ++i) {
      Value col = add(add(panel.start, offset), constant(i));
      columns.push_back(panel.isEdge ? minimum(col, last) : col);
    }
    auto square = [&](Value k, Value mask) {
      Values rows;
      for (Value col : columns) {
        Value row = loadFactors(
            c.b, indices(c.b, Value(), col, add(block.redStart, k)), mask);
        rows.push_back(b.createOrFold<vector::BitCastOp>(word, row));
      }
      for (auto [i, row] : llvm::enumerate(transpose(rows))) {
        Value at = add(mul(add(k, constant(unit * i)), panel.width),
                       mul(offset, constant(unit)));
        vector::StoreOp::create(
            b, b.createOrFold<vector::BitCastOp>(factorType(), row),
            block.packedB, at);
      }
    };
    Value whole = roundDown(block.redCount, length);
    forLoop(constant(0), whole, length, [&](Value k) { square(k, Value()); });
    if (!ShapedType::isDynamic(c.sizes[c.red]) &&
        c.sizes[c.red] % (unit * vl) == 0)
      continue;
    // kc is a multiple of the length: the buffer has room for the zeros beyond
    // the end.
    forLoop(whole, block.redCount, length, [&](Value k) {
      Value mask = vector::CreateMaskOp::create(
          b, factorType().clone(b.getI1Type()), sub(block.redCount, k));
      square(k, mask);
    });
  }
}

void ContractionEmitter::packByScatter(const Panel &panel, const Block &block) {
  VectorType indexType = vectorType(b.getIndexType());
  Value lanes = vector::StepOp::create(b, indexType);
  Value stride = vector::BroadcastOp::create(b, indexType, panel.width);
  Value targets = arith::MulIOp::create(b, lanes, stride);
  VectorType maskType = vectorType(b.getI1Type());
  Value all =
      arith::ConstantOp::create(b, DenseElementsAttr::get(maskType, true));
  Value last = sub(sizes[c.col], constant(1));
  Value whole = roundDown(block.redCount, vectorLength);
  forLoop(constant(0), panel.width, constant(1), [&](Value n) {
    Value col = minimum(add(panel.start, n), last);
    auto source = [&](Value k) {
      return indices(c.b, Value(), col, add(block.redStart, k));
    };
    auto target = [&](Value k) { return add(mul(k, panel.width), n); };
    forLoop(constant(0), whole, vectorLength, [&](Value k) {
      vector::ScatterOp::create(b, Type(), block.packedB, target(k), targets,
                                all, loadVector(c.b, source(k), Value()));
    });
    forLoop(whole, block.redCount, constant(1), [&](Value k) {
      memref::StoreOp::create(b, loadScalar(c.b, source(k)), block.packedB,
                              target(k));
    });
  });
}

void ContractionEmitter::packByElement(const Panel &panel, const Block &block) {
  Value last = sub(sizes[c.col], constant(1));
  forLoop(constant(0), block.redCount, constant(1), [&](Value k) {
    forLoop(constant(0), panel.width, constant(1), [&](Value n) {
      Value col = minimum(add(panel.start, n), last);
      Value v =
          loadScalar(c.b, indices(c.b, Value(), col, add(block.redStart, k)));
      memref::StoreOp::create(b, v, block.packedB,
                              packedIndex(k, panel.width, n));
    });
  });
  if (unit > 1)
    forOddEnd(block, [&](Value k) {
      forLoop(constant(0), panel.width, constant(1), [&](Value n) {
        memref::StoreOp::create(b, zero(packedType()), block.packedB,
                                packedIndex(k, panel.width, n));
      });
    });
}

void ContractionEmitter::forOddEnd(const Block &block,
                                   llvm::function_ref<void(Value)> body) {
  forLoop(roundDown(block.redCount, constant(unit)), block.redCount,
          constant(unit), [&](Value k) { body(add(k, constant(1))); });
}

void ContractionEmitter::packPairsOfA(const Block &block, Value row,
                                      int64_t rows) {
  auto source = [&](int64_t i, Value k) {
    return indices(c.a, add(row, constant(i)), Value(), add(block.redStart, k));
  };
  Value width = constant(rows);
  // Neighbouring rows by vectors, if that is how A lies.
  bool together = rows > 1 && c.a.isContiguousAlong(*c.row);
  VectorType type = VectorType::get({rows}, packedType());
  auto step = [&](Value k, bool half) {
    if (together) {
      Value first = vector::LoadOp::create(b, type, c.a.value, source(0, k));
      Value second =
          half ? zero(type)
               : vector::LoadOp::create(b, type, c.a.value,
                                        source(0, add(k, constant(1))))
                     .getResult();
      vector::StoreOp::create(b, vector::InterleaveOp::create(b, first, second),
                              packedA, ValueRange{mul(k, width)});
      return;
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t u = 0; u < unit; ++u) {
        Value v = half && u > 0
                      ? zero(packedType())
                      : loadScalar(c.a, source(i, add(k, constant(u))));
        Value at = add(mul(k, width), constant(i * unit + u));
        memref::StoreOp::create(b, v, packedA, at);
      }
    }
  };
  Value whole = roundDown(block.redCount, constant(unit));
  forLoop(constant(0), whole, constant(unit),
          [&](Value k) { step(k, /*half=*/false); });
  forLoop(whole, block.redCount, constant(unit),
          [&](Value k) { step(k, /*half=*/true); });
}

void ContractionEmitter::packA(const Block &block, Value row, int64_t rows) {
  auto source = [&](int64_t i, Value k) {
    return indices(c.a, add(row, constant(i)), Value(), add(block.redStart, k));
  };
  auto target = [&](int64_t i, Value k) {
    return add(constant(i * schedule.getKc()), k);
  };
  Value done = constant(0);
  if (c.a.isContiguousAlong(c.red)) {
    done = roundDown(block.redCount, vectorLength);
    forLoop(constant(0), done, vectorLength, [&](Value k) {
      for (int64_t i = 0; i < rows; ++i)
        vector::StoreOp::create(b, loadVector(c.a, source(i, k), Value()),
                                packedA, ValueRange{target(i, k)});
    });
  }
  forLoop(done, block.redCount, constant(1), [&](Value k) {
    for (int64_t i = 0; i < rows; ++i)
      memref::StoreOp::create(b, loadScalar(c.a, source(i, k)), packedA,
                              ValueRange{target(i, k)});
  });
}

void ContractionEmitter::readScratch(const Panel &panel, const Block &block,
                                     Value row, int64_t rows) {
  Value last = sub(sizes[c.col], constant(1));
  forLoop(row, add(row, constant(rows)), constant(1), [&](Value r) {
    forLoop(constant(0), panel.width, constant(1), [&](Value n) {
      Value v = loadSum(r, minimum(add(panel.start, n), last));
      memref::StoreOp::create(b, v, scratchC, scratchIndex(panel, block, r, n));
    });
  });
}

void ContractionEmitter::writeScratch(const Panel &panel, const Block &block,
                                      Value row, int64_t rows) {
  Value columns = minimum(panel.width, sub(sizes[c.col], panel.start));
  forLoop(row, add(row, constant(rows)), constant(1), [&](Value r) {
    forLoop(constant(0), columns, constant(1), [&](Value n) {
      Value v =
          memref::LoadOp::create(b, scratchC, scratchIndex(panel, block, r, n));
      memref::StoreOp::create(b, narrow(v), c.c.value,
                              indices(c.c, r, add(panel.start, n), Value()));
    });
  });
}
