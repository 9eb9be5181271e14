//===- OuterProduct.cpp - contractions by outer products ------------------===//
//
// A task is a panel of columns times a block of rows. The reduction runs in
// blocks of kc; in each, the panel's part of B is packed if that pays, and
// register tiles of rows x vectors accumulate over it: one vector of B and one
// broadcast element of A a multiply-add (Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008, with A read where it lies).
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "buddy/Transforms/Parallel.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace buddy;

/// Elements of a buffer whose row length depends on vscale: enough for a row
/// of the longest vectors that RISC-V allows (65536 bits, groups of four).
static constexpr int64_t kScalableBuffer = 16384;

/// From so many columns of B on, a single row reads B in long runs of
/// columns, so many rows of B at a time, and C is read and written again for
/// each. Otherwise runs are short and far apart, which hardware does not
/// foresee; software prefetches were measured to help little.
static constexpr int64_t kStreamedColumns = 4096, kStreamedRows = 8;

bool ContractionEmitter::mayBeEdge(int64_t vectors) const {
  int64_t columns = c.sizes[c.col];
  return schedule.getScalable() || ShapedType::isDynamic(columns) ||
         columns % (vectors * schedule.getVl()) != 0;
}

ContractionEmitter::Panel
ContractionEmitter::makePanel(Value start, Value width, int64_t vectors) {
  Panel panel;
  panel.start = start;
  panel.width = width;
  Value left = sub(sizes[c.col], start);
  bool edges = mayBeEdge(vectors);
  if (edges)
    panel.isEdge = lessThan(left, width);
  for (int64_t j = 0; j < vectors; ++j) {
    panel.offsets.push_back(mul(constant(j), vectorLength));
    if (!edges)
      continue;
    Value lanes = minimum(sub(left, panel.offsets.back()), vectorLength);
    panel.masks.push_back(
        vector::CreateMaskOp::create(b, vectorType(b.getI1Type()), lanes));
  }
  return panel;
}

void ContractionEmitter::emitOuterProduct(int64_t rows, int64_t vectors) {
  bool scalable = schedule.getScalable();
  Value width = mul(constant(vectors), vectorLength);
  int64_t staticWidth = vectors * schedule.getVl();
  Value kc = constant(schedule.getKc()), mc = constant(schedule.getMc());
  // Columns of a task: a panel, or many if a single row streams through B.
  Value taskWidth = width;
  // B itself is read if it is contiguous and few rows use it. The last panel
  // is then packed too, which fills it up, except for one row.
  bool direct = c.b.isContiguousAlong(c.col);
  bool thin = direct && rows == 1;
  Value packs = direct && !thin
                    ? lessThan(constant(schedule.getPackM() - 1), rowCount)
                    : Value();
  std::optional<int64_t> packsKnown =
      packs ? getConstantIntValue(packs) : std::nullopt;
  bool alwaysPacks = !direct || packsKnown.value_or(0) != 0;
  if (scalable) {
    Value fitting =
        b.createOrFold<arith::DivUIOp>(constant(kScalableBuffer), width);
    kc = minimum(kc, fitting);
    if (usesScratch)
      mc = minimum(mc, fitting);
  }
  if (thin && !usesScratch) {
    Value streams = lessThan(constant(kStreamedColumns - 1), sizes[c.col]);
    auto either = [&](Value yes, Value no) {
      return b.createOrFold<arith::SelectOp>(streams, yes, no);
    };
    kc = either(constant(kStreamedRows), kc);
    taskWidth = either(constant(16 * staticWidth), width);
  }
  Values lower, upper, steps;
  for (unsigned dim : c.outerParallel) {
    lower.push_back(constant(0));
    upper.push_back(sizes[dim]);
    steps.push_back(constant(1));
  }
  lower.append({constant(0), constant(0)});
  upper.append({rowCount, sizes[c.col]});
  steps.append({mc, taskWidth});

  createParallelLoop(
      b, b.getLoc(), lower, upper, steps, work,
      [&](OpBuilder &, Location, ValueRange ivs) {
        for (auto [dim, iv] : llvm::zip(c.outerParallel, ivs))
          outer[dim] = iv;
        Value firstRow = ivs[ivs.size() - 2], firstCol = ivs.back();
        Value endRow = minimum(rowCount, add(firstRow, mc));
        Value endCol = minimum(sizes[c.col], add(firstCol, taskWidth));
        auto buffer = [&](int64_t count) {
          return stackBuffer(scalable ? kScalableBuffer : count * staticWidth);
        };
        bool mayPack = !thin && (alwaysPacks || mayBeEdge(vectors) ||
                                 packsKnown.value_or(1) != 0);
        Value packedB = mayPack ? buffer(schedule.getKc()) : Value();
        packedA = convertsA ? stackBuffer(rows * schedule.getKc()) : Value();
        scratchC = usesScratch ? buffer(thin ? 1 : schedule.getMc()) : Value();
        if (usesScratch)
          readScratch(makePanel(firstCol, width, vectors), firstRow, endRow);

        forOuterReductions([&](Value isFirstOuter) {
          forLoop(constant(0), sizes[c.red], kc, [&](Value redStart) {
            Block block;
            block.firstRow = firstRow;
            block.redStart = redStart;
            block.redCount = minimum(kc, sub(sizes[c.red], redStart));
            if (fromZero && !usesScratch)
              block.isFirst =
                  bothOf(isFirstOuter,
                         b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq,
                                                       redStart, constant(0)));
            forLoop(firstCol, endCol, width, [&](Value col) {
              Panel panel = makePanel(col, width, vectors);
              auto packed = [&] {
                block.packedB = packedB;
                packB(panel, block);
                emitTiles(panel, block, endRow, rows);
              };
              auto unpacked = [&](bool masked) {
                block.packedB = Value();
                block.masked = masked;
                emitTiles(panel, block, endRow, rows);
              };
              if (alwaysPacks)
                return packed();
              if (thin && panel.isEdge)
                return ifElse(
                    panel.isEdge, [&] { unpacked(true); },
                    [&] { unpacked(false); });
              if (thin)
                return unpacked(false);
              Value condition =
                  panel.isEdge
                      ? b.createOrFold<arith::OrIOp>(packs, panel.isEdge)
                      : packs;
              ifElse(condition, packed, [&] { unpacked(false); });
            });
          });
        });
        if (usesScratch)
          writeScratch(makePanel(firstCol, width, vectors), firstRow, endRow);
      });
}

void ContractionEmitter::emitTiles(const Panel &panel, const Block &block,
                                   Value end, int64_t rows) {
  // Blocks are multiples of the largest tile, so that rows are left over only
  // in the last.
  int64_t total = c.staticRows();
  if (schedule.getScalable() && usesScratch)
    total = ShapedType::kDynamic;
  forRowTiles(block.firstRow, end, rows, total, [&](Value row, int64_t count) {
    emitTile(panel, block, row, count);
  });
}

void ContractionEmitter::emitTile(const Panel &panel, const Block &block,
                                  Value row, int64_t rows) {
  if (convertsA)
    packA(block, row, rows);
  // Scratch has room for all columns, so that only C itself needs masks.
  Value isEdge = usesScratch ? Value() : panel.isEdge;
  SmallVector<Type> types(rows * panel.offsets.size(),
                          vectorType(c.accumulator));
  auto load = [&]() -> Values {
    if (!isEdge)
      return loadSums(panel, block, row, rows, /*masked=*/false);
    return ifElse(
        isEdge, types,
        [&] { return loadSums(panel, block, row, rows, /*masked=*/true); },
        [&] { return loadSums(panel, block, row, rows, /*masked=*/false); });
  };
  Values sums =
      block.isFirst
          ? ifElse(
                block.isFirst, types,
                [&] { return Values(types.size(), zero(types.front())); }, load)
          : load();
  sums = emitReductionLoop(panel, block, row, rows, sums);
  if (!isEdge)
    return storeSums(panel, block, row, rows, sums, /*masked=*/false);
  ifElse(
      isEdge,
      [&] { storeSums(panel, block, row, rows, sums, /*masked=*/true); },
      [&] { storeSums(panel, block, row, rows, sums, /*masked=*/false); });
}

SmallVector<Value>
ContractionEmitter::emitReductionLoop(const Panel &panel, const Block &block,
                                      Value row, int64_t rows, Values sums) {
  auto step = [&](Value k, Values &sums) {
    Values columns;
    for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
      if (block.packedB)
        columns.push_back(vector::LoadOp::create(
            b, vectorType(c.accumulator), block.packedB,
            ValueRange{add(mul(k, panel.width), offset)}));
      else
        columns.push_back(
            loadVector(c.b,
                       indices(c.b, Value(), add(panel.start, offset),
                               add(block.redStart, k)),
                       block.masked ? panel.masks[j] : Value()));
    }
    for (int64_t i = 0; i < rows; ++i) {
      Value factor;
      if (convertsA)
        factor = memref::LoadOp::create(
            b, packedA, ValueRange{add(constant(i * schedule.getKc()), k)});
      else
        factor = loadScalar(c.a, indices(c.a, add(row, constant(i)), Value(),
                                         add(block.redStart, k)));
      Value broadcast =
          vector::BroadcastOp::create(b, vectorType(c.accumulator), factor);
      for (auto [j, column] : llvm::enumerate(columns)) {
        Value &sum = sums[i * columns.size() + j];
        sum = multiplyAdd(broadcast, column, sum);
      }
    }
  };
  int64_t unroll = schedule.getKu();
  Value unrolledEnd = roundDown(block.redCount, constant(unroll));
  sums = forLoop(constant(0), unrolledEnd, constant(unroll), sums,
                 [&](Value k, ValueRange carried) {
                   Values next(carried);
                   for (int64_t u = 0; u < unroll; ++u)
                     step(add(k, constant(u)), next);
                   return next;
                 });
  bool evenly = !ShapedType::isDynamic(c.sizes[c.red]) &&
                c.sizes[c.red] % unroll == 0 &&
                schedule.getKc() % unroll == 0 && !schedule.getScalable();
  if (unroll == 1 || evenly)
    return sums;
  return forLoop(unrolledEnd, block.redCount, constant(1), sums,
                 [&](Value k, ValueRange carried) {
                   Values next(carried);
                   step(k, next);
                   return next;
                 });
}

SmallVector<Value> ContractionEmitter::loadSums(const Panel &panel,
                                                const Block &block, Value row,
                                                int64_t rows, bool masked) {
  Values sums;
  VectorType type = vectorType(c.accumulator);
  for (int64_t i = 0; i < rows; ++i) {
    Value r = add(row, constant(i));
    for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
      if (usesScratch) {
        Value at = add(mul(sub(r, block.firstRow), panel.width), offset);
        sums.push_back(vector::LoadOp::create(b, type, scratchC, at));
        continue;
      }
      Values at = indices(c.c, r, add(panel.start, offset), Value());
      sums.push_back(
          masked ? vector::MaskedLoadOp::create(b, type, c.c.value, at,
                                                panel.masks[j], zero(type))
                       .getResult()
                 : vector::LoadOp::create(b, type, c.c.value, at).getResult());
    }
  }
  return sums;
}

void ContractionEmitter::storeSums(const Panel &panel, const Block &block,
                                   Value row, int64_t rows, ValueRange sums,
                                   bool masked) {
  for (int64_t i = 0; i < rows; ++i) {
    Value r = add(row, constant(i));
    for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
      Value sum = sums[i * panel.offsets.size() + j];
      if (usesScratch) {
        Value at = add(mul(sub(r, block.firstRow), panel.width), offset);
        vector::StoreOp::create(b, sum, scratchC, at);
        continue;
      }
      Values at = indices(c.c, r, add(panel.start, offset), Value());
      if (masked)
        vector::MaskedStoreOp::create(b, c.c.value, at, panel.masks[j], sum);
      else
        vector::StoreOp::create(b, sum, c.c.value, at);
    }
  }
}
