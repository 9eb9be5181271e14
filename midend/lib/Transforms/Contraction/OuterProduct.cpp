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
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace buddy;

/// Elements of a buffer whose row length depends on vscale: enough for a row
/// of the longest vectors that RISC-V allows (65536 bits, groups of four).
static constexpr int64_t kScalableBuffer = 16384;

/// From so many columns of B on, a single row reads B in long runs of
/// columns, so many rows of B at a time, and C is read and written again for
/// each. Otherwise runs are short and far apart, which hardware does not
/// foresee; software prefetches were measured to help little.
static constexpr int64_t kStreamedColumns = 4096, kStreamedRows = 8,
                         kStreamedPanels = 16;

/// Of at most so many panels a last one that is half empty costs enough to
/// have code of its own, with fewer vectors.
static constexpr int64_t kFewPanels = 16;

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
  if (c.b.panels) {
    Value weightWidth = constant(c.b.panels->width);
    panel.weightPanel = b.createOrFold<arith::DivUIOp>(start, weightWidth);
    panel.weightColumn =
        c.b.panels->width == vectors * schedule.getVl()
            ? constant(0)
            : b.createOrFold<arith::RemUIOp>(start, weightWidth);
  }
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

void ContractionEmitter::emitOuterProduct(int64_t rows, int64_t vectors,
                                          bool tiles) {
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
  bool alwaysPacks =
      !panels && (tiles || !direct || packsKnown.value_or(0) != 0);
  if (scalable) {
    Value fitting =
        b.createOrFold<arith::DivUIOp>(constant(kScalableBuffer), width);
    kc = minimum(kc, fitting);
    if (usesScratch)
      mc = minimum(mc, fitting);
  }
  if (thin && !scalable) {
    Value streams = lessThan(constant(kStreamedColumns - 1), sizes[c.col]);
    auto either = [&](Value yes, Value no) {
      return b.createOrFold<arith::SelectOp>(streams, yes, no);
    };
    kc = either(constant(kStreamedRows), kc);
    taskWidth = either(constant(kStreamedPanels * staticWidth), width);
  }
  // One tile of rows uses each element of panels once: blocks of them would
  // only carry sums through memory.
  std::optional<int64_t> kcKnown = schedule.getKc();
  if (panels && !packsA && !tiles) {
    kc = b.createOrFold<arith::SelectOp>(
        lessThan(constant(schedule.getMr()), rowCount), kc,
        maximum(sizes[c.red], constant(1)));
    kcKnown = getConstantIntValue(kc);
  }
  // The whole reduction is one block: sums are never kept outside registers.
  bool oneBlock = !thin && !scalable && c.outerReductions.empty() &&
                  !ShapedType::isDynamic(c.sizes[c.red]) && kcKnown &&
                  c.sizes[c.red] <= *kcKnown;
  int64_t rest =
      ShapedType::isDynamic(c.sizes[c.col]) ? 0 : c.sizes[c.col] % staticWidth;
  bool narrowEnd = !thin && !tiles && !scalable && rest > 0 &&
                   rest <= (vectors - 1) * schedule.getVl() &&
                   c.sizes[c.col] / staticWidth < kFewPanels;
  // Blocks of about as many rows each, or threads would get uneven shares.
  Value blocks = maximum(ceilDiv(rowCount, mc), constant(1));
  mc = minimum(mc, maximum(roundUp(ceilDiv(rowCount, blocks), constant(rows)),
                           constant(rows)));
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
        auto buffer = [&](int64_t count, Type element) {
          return stackBuffer(scalable ? kScalableBuffer : count * staticWidth,
                             element);
        };
        bool mayPack =
            !thin && !panels &&
            (alwaysPacks || mayBeEdge(vectors) || packsKnown.value_or(1) != 0);
        Value packedB =
            mayPack ? buffer(schedule.getKc(), packedType()) : Value();
        packedA = packsA ? stackBuffer(rows * schedule.getKc(), packedType())
                         : Value();
        scratchC = Value();
        if (tiles || epilogue ||
            (usesScratch && !(oneBlock && c.c.isContiguousAlong(c.col))))
          scratchC =
              buffer(thin ? kStreamedPanels : schedule.getMc(), c.accumulator);
        if (tiles)
          makeTileBuffers(vectors);
        scratchStart = firstCol;
        scratchWidth = taskWidth;

        forOuterReductions([&](Value isFirstOuter, Value isLastOuter) {
          forLoop(constant(0), sizes[c.red], kc, [&](Value redStart) {
            Block block;
            block.firstRow = firstRow;
            block.redStart = redStart;
            block.redCount = minimum(kc, sub(sizes[c.red], redStart));
            if (oneBlock) {
              block.isFirst = block.isLast =
                  arith::ConstantIntOp::create(b, b.getI1Type(), 1);
            } else {
              block.isFirst =
                  bothOf(isFirstOuter, equal(redStart, constant(0)));
              block.isLast =
                  bothOf(isLastOuter,
                         equal(add(redStart, block.redCount), sizes[c.red]));
            }
            auto computePanel = [&](const Panel &panel) {
              auto compute = [&] {
                tiles ? emitMatrixTiles(panel, block, endRow)
                      : emitTiles(panel, block, endRow, rows);
              };
              auto packed = [&] {
                block.packedB = packedB;
                packB(panel, block);
                compute();
              };
              auto unpacked = [&](bool masked) {
                block.packedB = Value();
                block.masked = masked;
                compute();
              };
              if (panels)
                return unpacked(false);
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
            };
            forLoop(firstCol, endCol, width, [&](Value col) {
              if (!narrowEnd)
                return computePanel(makePanel(col, width, vectors));
              ifElse(
                  lessThan(sub(sizes[c.col], col), width),
                  [&] {
                    computePanel(makePanel(
                        col, width, llvm::divideCeil(rest, schedule.getVl())));
                  },
                  [&] {
                    Panel whole = makePanel(col, width, vectors);
                    whole.isEdge = Value();
                    computePanel(whole);
                  });
            });
          });
        });
        if (epilogue)
          emitEpilogue(firstRow, endRow, firstCol, endCol);
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

SmallVector<Value>
ContractionEmitter::onEdge(const Panel &panel, TypeRange types,
                           llvm::function_ref<Values(bool)> body) {
  if (!panel.isEdge)
    return body(/*masked=*/false);
  return ifElse(
      panel.isEdge, types, [&] { return body(/*masked=*/true); },
      [&] { return body(/*masked=*/false); });
}

void ContractionEmitter::emitTile(const Panel &panel, const Block &block,
                                  Value row, int64_t rows) {
  if (packsA)
    unit == 1 ? packA(block, row, rows) : packPairsOfA(block, row, rows);
  SmallVector<Type> types(rows * panel.offsets.size(),
                          vectorType(c.accumulator));
  auto before = [&]() -> Values {
    if (fromZero)
      return Values(types.size(), zero(types.front()));
    return loadResults(panel, block, row, rows);
  };
  Values sums;
  if (usesScratch)
    sums = ifElse(block.isFirst, types, before,
                  [&] { return loadSums(panel, block, row, rows); });
  else if (fromZero)
    sums = ifElse(block.isFirst, types, before,
                  [&] { return loadResults(panel, block, row, rows); });
  else
    sums = before();
  sums = emitReductionLoop(panel, block, row, rows, sums);
  if (epilogue)
    return storeSums(panel, block, row, rows, sums);
  if (!usesScratch)
    return storeResults(panel, block, row, rows, sums);
  ifElse(
      block.isLast, [&] { storeResults(panel, block, row, rows, sums); },
      [&] { storeSums(panel, block, row, rows, sums); });
}

Value ContractionEmitter::loadRow(const Block &block, Value row, int64_t i,
                                  int64_t rows, Value k, bool half) {
  Values at =
      indices(c.a, add(row, constant(i)), Value(), add(block.redStart, k));
  if (unit == 1) {
    Value factor = packsA
                       ? memref::LoadOp::create(
                             b, packedA,
                             ValueRange{add(constant(i * schedule.getKc()), k)})
                             .getResult()
                       : loadScalar(c.a, at);
    return vector::BroadcastOp::create(b, factorType(), factor);
  }
  // A pair is one word for the broadcast.
  VectorType pair = VectorType::get({unit}, packedType());
  Value factor;
  if (packsA)
    factor = vector::LoadOp::create(
        b, pair, packedA,
        ValueRange{add(mul(k, constant(rows)), constant(unit * i))});
  else if (half)
    factor = vector::FromElementsOp::create(
        b, pair, ValueRange{loadScalar(c.a, at), zero(packedType())});
  else
    factor = vector::LoadOp::create(b, pair, c.a.value, at);
  Type word = b.getI32Type();
  factor = vector::BitCastOp::create(b, VectorType::get({1}, word), factor);
  factor = vector::BroadcastOp::create(
      b, vectorType(word), vector::ExtractOp::create(b, factor, int64_t(0)));
  return vector::BitCastOp::create(b, factorType(), factor);
}

Value ContractionEmitter::loadColumns(const Panel &panel, const Block &block,
                                      unsigned j, Value k, bool half) {
  Value offset = panel.offsets[j];
  if (block.packedB)
    return vector::LoadOp::create(
        b, factorType(), block.packedB,
        ValueRange{add(mul(k, panel.width), mul(offset, constant(unit)))});
  if (panels)
    return convert(c.b, loadPanel(panel, block, offset, k));
  auto load = [&](Value red) {
    return loadVector(c.b,
                      indices(c.b, Value(), add(panel.start, offset),
                              add(block.redStart, red)),
                      block.masked ? panel.masks[j] : Value());
  };
  if (unit == 1)
    return load(k);
  Value first = load(k);
  return vector::InterleaveOp::create(
      b, first, half ? zero(first.getType()) : load(add(k, constant(1))));
}

SmallVector<Value> ContractionEmitter::panelIndices(const Panel &panel,
                                                    const Block &block,
                                                    Value offset, Value k) {
  // Blocks start at whole pairs, so that k rows of pairs are k / 2 of them.
  return {panel.weightPanel,
          add(mul(add(block.redStart, k), constant(c.b.panels->width)),
              mul(add(panel.weightColumn, offset), constant(unit)))};
}

Value ContractionEmitter::loadPanel(const Panel &panel, const Block &block,
                                    Value offset, Value k) {
  return vector::LoadOp::create(b, factorType().clone(c.b.elementType()),
                                panels, panelIndices(panel, block, offset, k));
}

SmallVector<Value>
ContractionEmitter::emitReductionLoop(const Panel &panel, const Block &block,
                                      Value row, int64_t rows, Values sums) {
  auto step = [&](Value k, bool half, Values &sums) {
    Values columns;
    for (unsigned j = 0; j < panel.offsets.size(); ++j)
      columns.push_back(loadColumns(panel, block, j, k, half));
    for (int64_t i = 0; i < rows; ++i) {
      Value factor = loadRow(block, row, i, rows, k, half);
      for (auto [j, column] : llvm::enumerate(columns)) {
        Value &sum = sums[i * columns.size() + j];
        sum = multiplyAdd(factor, column, sum);
      }
    }
  };
  auto loop = [&](Value from, Value to, int64_t count, bool half) {
    sums = forLoop(from, to, constant(count * unit), sums,
                   [&](Value k, ValueRange carried) {
                     Values next(carried);
                     for (int64_t u = 0; u < count; ++u)
                       step(add(k, constant(u * unit)), half, next);
                     return next;
                   });
  };
  // The reduction and its blocks are multiples of `elements`.
  auto evenly = [&](int64_t elements) {
    return !ShapedType::isDynamic(c.sizes[c.red]) &&
           c.sizes[c.red] % elements == 0 && schedule.getKc() % elements == 0 &&
           !schedule.getScalable();
  };
  int64_t unroll = schedule.getKu();
  Value unrolled = roundDown(block.redCount, constant(unroll * unit));
  loop(constant(0), unrolled, unroll, /*half=*/false);
  Value whole = roundDown(block.redCount, constant(unit));
  if (unroll > 1 && !evenly(unroll * unit))
    loop(unrolled, whole, 1, /*half=*/false);
  if (unit > 1 && !evenly(unit))
    loop(whole, block.redCount, 1, /*half=*/true);
  return sums;
}

Value ContractionEmitter::scratchIndex(const Panel &panel, const Block &block,
                                       Value row, Value offset) {
  return add(mul(sub(row, block.firstRow), scratchWidth),
             add(sub(panel.start, scratchStart), offset));
}

SmallVector<Value> ContractionEmitter::loadSums(const Panel &panel,
                                                const Block &block, Value row,
                                                int64_t rows) {
  Values sums;
  for (int64_t i = 0; i < rows; ++i)
    for (Value offset : panel.offsets)
      sums.push_back(vector::LoadOp::create(
          b, vectorType(c.accumulator), scratchC,
          scratchIndex(panel, block, add(row, constant(i)), offset)));
  return sums;
}

void ContractionEmitter::storeSums(const Panel &panel, const Block &block,
                                   Value row, int64_t rows, ValueRange sums) {
  for (int64_t i = 0; i < rows; ++i)
    for (auto [j, offset] : llvm::enumerate(panel.offsets))
      vector::StoreOp::create(
          b, sums[i * panel.offsets.size() + j], scratchC,
          scratchIndex(panel, block, add(row, constant(i)), offset));
}

SmallVector<Value> ContractionEmitter::loadResults(const Panel &panel,
                                                   const Block &block,
                                                   Value row, int64_t rows) {
  if (!c.c.isContiguousAlong(c.col)) {
    readScratch(panel, block, row, rows);
    return loadSums(panel, block, row, rows);
  }
  VectorType type = vectorType(c.c.elementType()),
             wide = vectorType(c.accumulator);
  SmallVector<Type> types(rows * panel.offsets.size(), wide);
  return onEdge(panel, types, [&](bool masked) {
    Values sums;
    for (int64_t i = 0; i < rows; ++i) {
      for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
        Values at = indices(c.c, add(row, constant(i)),
                            add(panel.start, offset), Value());
        Value v = loadElements(type, c.c.value, at,
                               masked ? panel.masks[j] : Value());
        sums.push_back(
            type == wide ? v : arith::ExtFOp::create(b, wide, v).getResult());
      }
    }
    return sums;
  });
}

void ContractionEmitter::storeResults(const Panel &panel, const Block &block,
                                      Value row, int64_t rows,
                                      ValueRange sums) {
  if (!c.c.isContiguousAlong(c.col)) {
    storeSums(panel, block, row, rows, sums);
    return writeScratch(panel, block, row, rows);
  }
  onEdge(panel, {}, [&](bool masked) {
    for (int64_t i = 0; i < rows; ++i) {
      for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
        Value sum = narrow(sums[i * panel.offsets.size() + j]);
        Values at = indices(c.c, add(row, constant(i)),
                            add(panel.start, offset), Value());
        if (masked)
          vector::MaskedStoreOp::create(b, c.c.value, at, panel.masks[j], sum);
        else
          vector::StoreOp::create(b, sum, c.c.value, at);
      }
    }
    return Values();
  });
}
