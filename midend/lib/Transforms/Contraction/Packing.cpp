//===- Packing.cpp - operands in buffers of a thread ----------------------===//
//
// Buffers lie on the stack of the thread that runs a task and hold
// accumulators, so that elements are converted once and not at every use.
// Columns beyond the end get copies of the last column or zeros: they are
// computed and never stored.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace buddy;

Value ContractionEmitter::stackBuffer(int64_t elements) {
  // Once a thread, above its loop over tasks: inside the loop it would be
  // allocated in each iteration, and the loop's allocation scope could not be
  // removed.
  OpBuilder::InsertionGuard guard(b);
  auto parallel =
      b.getInsertionBlock()->getParentOp()->getParentOfType<omp::ParallelOp>();
  b.setInsertionPointToStart(&parallel.getRegion().front());
  return memref::AllocaOp::create(b, MemRefType::get({elements}, c.accumulator),
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
  if (!c.b.isContiguousAlong(c.red))
    return packByElement(panel, block);
  if (schedule.getScalable())
    return packByScatter(panel, block);
  packTransposed(panel, block);
}

void ContractionEmitter::packContiguous(const Panel &panel, const Block &block,
                                        bool masked) {
  forLoop(constant(0), block.redCount, constant(1), [&](Value k) {
    for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
      Values at = indices(c.b, Value(), add(panel.start, offset),
                          add(block.redStart, k));
      Value v = loadVector(c.b, at, masked ? panel.masks[j] : Value());
      vector::StoreOp::create(b, v, block.packedB,
                              ValueRange{add(mul(k, panel.width), offset)});
    }
  });
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
  Value last = sub(sizes[c.col], constant(1));
  for (Value offset : panel.offsets) {
    Values columns;
    for (int64_t i = 0; i < vl; ++i) {
      Value col = add(add(panel.start, offset), constant(i));
      columns.push_back(panel.isEdge ? minimum(col, last) : col);
    }
    auto square = [&](Value k, Value mask) {
      Values rows;
      for (Value col : columns)
        rows.push_back(loadVector(
            c.b, indices(c.b, Value(), col, add(block.redStart, k)), mask));
      for (auto [i, row] : llvm::enumerate(transpose(rows)))
        vector::StoreOp::create(
            b, row, block.packedB,
            ValueRange{add(mul(add(k, constant(i)), panel.width), offset)});
    };
    Value whole = roundDown(block.redCount, constant(vl));
    forLoop(constant(0), whole, constant(vl),
            [&](Value k) { square(k, Value()); });
    if (!ShapedType::isDynamic(c.sizes[c.red]) && c.sizes[c.red] % vl == 0)
      continue;
    // kc is a multiple of the vector length: the buffer has room for the
    // zeros beyond the end.
    forLoop(whole, block.redCount, constant(vl), [&](Value k) {
      Value mask = vector::CreateMaskOp::create(b, vectorType(b.getI1Type()),
                                                sub(block.redCount, k));
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
                              ValueRange{add(mul(k, panel.width), n)});
    });
  });
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

void ContractionEmitter::readScratch(const Panel &panel, Value firstRow,
                                     Value end) {
  Value last = sub(sizes[c.col], constant(1));
  forLoop(firstRow, end, constant(1), [&](Value row) {
    Value base = mul(sub(row, firstRow), panel.width);
    forLoop(constant(0), panel.width, constant(1), [&](Value n) {
      Value v = zero(c.accumulator);
      if (!fromZero)
        v = loadSum(row, minimum(add(panel.start, n), last));
      memref::StoreOp::create(b, v, scratchC, ValueRange{add(base, n)});
    });
  });
}

void ContractionEmitter::writeScratch(const Panel &panel, Value firstRow,
                                      Value end) {
  Value columns = minimum(panel.width, sub(sizes[c.col], panel.start));
  forLoop(firstRow, end, constant(1), [&](Value row) {
    Value base = mul(sub(row, firstRow), panel.width);
    forLoop(constant(0), columns, constant(1), [&](Value n) {
      Value v = memref::LoadOp::create(b, scratchC, ValueRange{add(base, n)});
      memref::StoreOp::create(b, narrow(v), c.c.value,
                              indices(c.c, row, add(panel.start, n), Value()));
    });
  });
}
