//===- MatrixTile.cpp - contractions of bf16 by matrix tiles --------------===//
//
// The outer product with a register tile of 32 rows and 32 columns, in four of
// the eight tile registers of x86's AMX: a step of 32 elements of the reduction
// loads two tiles of A, 16 rows of 32 elements each, where they lie, and two of
// B, 16 rows of 16 columns' pairs, from the packed panel or the weight's own,
// whose layout is the instruction's, for four products.
//
// All tiles have 16 rows of 64 bytes, whatever is left over: LLVM configures
// the tile registers once a function, and a register of another shape would be
// missing. Rows beyond the end are computed from a copy of A and stay in the
// scratch buffer, where sums go but for register tiles inside of a C in f32;
// the rest of the reduction is filled up with zeros in both factors.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/AMX/AMXDialect.h"

using namespace mlir;
using namespace buddy;

/// Rows of a tile, and columns of its sums; elements of the reduction; at most
/// so many tiles of rows and of columns in a register tile.
static constexpr int64_t kRows = 16, kDepth = 32, kTiles = 2;

bool ContractionEmitter::mayUseTiles() const {
  return schedule.getTileM() > 0 && unit == 2 && c.row && !c.b.windows &&
         c.a.isContiguousAlong(c.red);
}

bool ContractionEmitter::mayHaveRest() const {
  return ShapedType::isDynamic(c.sizes[c.red]) || c.sizes[c.red] % kDepth != 0;
}

void ContractionEmitter::emitMatrixProduct() {
  int64_t columns = c.sizes[c.col];
  bool narrow = !ShapedType::isDynamic(columns) && columns <= kRows;
  narrow |= c.b.panels && c.b.panels->width % (kTiles * kRows) != 0;
  emitOuterProduct(kTiles * kRows, narrow ? 1 : kTiles, /*tiles=*/true);
}

Value ContractionEmitter::loadTile(Type type, Value from, ValueRange at,
                                   Value stride) {
  return amx::TileLoadOp::create(b, type, from, at, stride);
}

Value ContractionEmitter::rowStride(const Contraction::Operand &operand) {
  unsigned position = *operand.position(*c.row);
  if (!ShapedType::isDynamic(operand.strides[position]))
    return constant(operand.strides[position]);
  return memref::ExtractStridedMetadataOp::create(b, operand.value)
      .getStrides()[position];
}

bool ContractionEmitter::mayHaveLastRows() const {
  int64_t total = c.staticRows();
  return ShapedType::isDynamic(total) || total % (kTiles * kRows) != 0;
}

int64_t ContractionEmitter::lastRowsPitch() const {
  // Not a power of two, which would crowd few sets of the cache.
  return schedule.getKc() + kDepth;
}

void ContractionEmitter::makeTileBuffers(int64_t columnTiles) {
  auto buffer = [&](bool isNeeded, int64_t elements) {
    return isNeeded ? stackBuffer(elements, packedType()) : Value();
  };
  restOfA = buffer(mayHaveRest(), kTiles * kRows * kDepth);
  restOfB = buffer(mayHaveRest(), columnTiles * kRows * kDepth);
  lastRows = buffer(mayHaveLastRows(), kTiles * kRows * lastRowsPitch());
}

void ContractionEmitter::emitMatrixTiles(const Panel &panel, const Block &block,
                                         Value end) {
  Type factors = amx::TileType::get({kRows, kDepth}, packedType());
  if (mayHaveRest())
    packRestOfB(panel, block);
  Value wholeRed = roundDown(block.redCount, constant(kDepth));
  int64_t total = c.staticRows(), largest = kTiles * kRows;
  Value wholeEnd = add(block.firstRow,
                       roundDown(sub(end, block.firstRow), constant(largest)));

  // Whole register tiles: of A only the rest of the reduction is copied.
  if (ShapedType::isDynamic(total) || total >= largest) {
    Value stride = rowStride(c.a);
    auto load = [&](Value row, int64_t i, Value k) {
      Values at = indices(c.a, add(row, constant(i * kRows)), Value(),
                          add(block.redStart, k));
      return loadTile(factors, c.a.value, at, stride);
    };
    auto loadRest = [&](int64_t i, Value) {
      return loadTile(factors, restOfA,
                      ValueRange{constant(i * kRows * kDepth)},
                      constant(kDepth));
    };
    forLoop(block.firstRow, wholeEnd, constant(largest), [&](Value row) {
      if (mayHaveRest())
        packTileRows(block, row, constant(largest), wholeRed, restOfA, kDepth);
      auto tile = [&](bool inC) {
        emitMatrixTile(
            panel, block, row, end, kTiles, inC,
            [&](int64_t i, Value k) { return load(row, i, k); }, loadRest);
        return Values();
      };
      if (usesScratch)
        tile(/*inC=*/false);
      else
        onEdge(panel, {}, [&](bool masked) { return tile(!masked); });
    });
  }
  if (!mayHaveLastRows())
    return;

  // The last rows, in a copy with room for those beyond the end.
  int64_t pitch = lastRowsPitch();
  auto load = [&](int64_t i, Value k) {
    return loadTile(factors, lastRows,
                    ValueRange{add(constant(i * kRows * pitch), k)},
                    constant(pitch));
  };
  auto last = [&](int64_t rowTiles) {
    packTileRows(block, wholeEnd, sub(end, wholeEnd), constant(0), lastRows,
                 pitch);
    emitMatrixTile(panel, block, wholeEnd, end, rowTiles, /*inC=*/false, load,
                   load);
  };
  // Tasks are multiples of a register tile, so that only the last has a rest.
  bool oneTask = !ShapedType::isDynamic(total) && total <= schedule.getMc();
  Value isLast =
      oneTask ? arith::ConstantIntOp::create(b, b.getI1Type(), 1).getResult()
              : lessThan(wholeEnd, end);
  Value left = ShapedType::isDynamic(total) ? sub(end, wholeEnd)
                                            : constant(total % largest);
  ifElse(
      isLast,
      [&] {
        ifElse(
            lessThan(constant(kRows), left), [&] { last(2); },
            [&] { last(1); });
      },
      [] {});
}

void ContractionEmitter::emitMatrixTile(const Panel &panel, const Block &block,
                                        Value row, Value end, int64_t rowTiles,
                                        bool inC, TileLoad load,
                                        TileLoad loadRest) {
  Type factors = amx::TileType::get({kRows, kDepth}, packedType());
  Type sumType = amx::TileType::get({kRows, kRows}, c.accumulator);
  int64_t columnTiles = panel.offsets.size(), tiles = rowTiles * columnTiles;
  Value endRow = minimum(end, add(row, constant(rowTiles * kRows)));
  Value home = inC ? c.c.value : scratchC;
  Value pitch = inC ? rowStride(c.c) : scratchWidth;
  auto sumAt = [&](int64_t tile) -> Values {
    Value first = add(row, constant(tile / columnTiles * kRows));
    Value offset = panel.offsets[tile % columnTiles];
    if (inC)
      return indices(c.c, first, add(panel.start, offset), Value());
    return {scratchIndex(panel, block, first, offset)};
  };
  auto loadKept = [&] {
    Values sums;
    for (int64_t tile = 0; tile < tiles; ++tile)
      sums.push_back(loadTile(sumType, home, sumAt(tile), pitch));
    return sums;
  };
  auto loadBefore = [&] {
    Values sums;
    if (fromZero) {
      for (int64_t tile = 0; tile < tiles; ++tile)
        sums.push_back(amx::TileZeroOp::create(b, sumType));
      return sums;
    }
    if (!inC)
      forLoop(row, endRow, constant(1), [&](Value r) {
        storeSums(panel, block, r, 1, loadResults(panel, block, r, 1));
      });
    return loadKept();
  };
  auto step = [&](TileLoad loadA, TileLoad loadB, Value k, ValueRange carried) {
    Values rows, columns, sums(carried);
    for (int64_t i = 0; i < rowTiles; ++i)
      rows.push_back(loadA(i, k));
    for (int64_t j = 0; j < columnTiles; ++j)
      columns.push_back(loadB(j, k));
    for (auto [tile, sum] : llvm::enumerate(sums))
      sum = amx::TileMulFOp::create(b, sumType, rows[tile / columnTiles],
                                    columns[tile % columnTiles], sum);
    return sums;
  };
  auto loadB = [&](int64_t j, Value k) {
    if (!block.packedB)
      return loadTile(factors, panels,
                      panelIndices(panel, block, panel.offsets[j], k),
                      constant(unit * c.b.panels->width));
    Value at = add(mul(k, panel.width), mul(panel.offsets[j], constant(unit)));
    return loadTile(factors, block.packedB, at,
                    mul(panel.width, constant(unit)));
  };
  auto loadRestOfB = [&](int64_t j, Value) {
    return loadTile(factors, restOfB, mul(panel.offsets[j], constant(unit)),
                    mul(panel.width, constant(unit)));
  };

  SmallVector<Type> types(tiles, sumType);
  Values sums = ifElse(block.isFirst, types, loadBefore, loadKept);
  Value whole = roundDown(block.redCount, constant(kDepth));
  sums = forLoop(constant(0), whole, constant(kDepth), sums,
                 [&](Value k, ValueRange carried) {
                   return step(load, loadB, k, carried);
                 });
  if (mayHaveRest())
    sums = forLoop(whole, block.redCount, constant(kDepth), sums,
                   [&](Value k, ValueRange carried) {
                     return step(loadRest, loadRestOfB, k, carried);
                   });
  for (auto [tile, sum] : llvm::enumerate(sums))
    amx::TileStoreOp::create(b, home, sumAt(tile), sum, pitch);
  if (inC || epilogue)
    return;
  ifElse(
      block.isLast,
      [&] {
        forLoop(row, endRow, constant(1), [&](Value r) {
          storeResults(panel, block, r, 1, loadSums(panel, block, r, 1));
        });
      },
      [] {});
}

void ContractionEmitter::packTileRows(const Block &block, Value row,
                                      Value count, Value from, Value target,
                                      int64_t pitch) {
  VectorType type = VectorType::get({kDepth}, packedType());
  Value whole = roundDown(block.redCount, constant(kDepth));
  Value mask = vector::CreateMaskOp::create(b, type.clone(b.getI1Type()),
                                            sub(block.redCount, whole));
  forLoop(constant(0), count, constant(1), [&](Value r) {
    auto copy = [&](Value k, Value mask) {
      Values at = indices(c.a, add(row, r), Value(), add(block.redStart, k));
      vector::StoreOp::create(
          b, loadElements(type, c.a.value, at, mask), target,
          ValueRange{add(mul(r, constant(pitch)), sub(k, from))});
    };
    forLoop(from, whole, constant(kDepth), [&](Value k) { copy(k, Value()); });
    if (mayHaveRest())
      forLoop(whole, block.redCount, constant(kDepth),
              [&](Value k) { copy(k, mask); });
  });
}

void ContractionEmitter::packRestOfB(const Panel &panel, const Block &block) {
  Value whole = roundDown(block.redCount, constant(kDepth));
  Value end = roundUp(block.redCount, constant(unit));
  auto rows = [&](Value from, Value to,
                  llvm::function_ref<Value(unsigned, Value)> load) {
    forLoop(from, to, constant(unit), [&](Value k) {
      for (auto [j, offset] : llvm::enumerate(panel.offsets)) {
        Value at =
            add(mul(sub(k, whole), panel.width), mul(offset, constant(unit)));
        vector::StoreOp::create(b, load(j, k), restOfB, at);
      }
    });
  };
  rows(whole, end, [&](unsigned j, Value k) {
    return loadColumns(panel, block, j, k, /*half=*/false);
  });
  rows(end, add(whole, constant(kDepth)),
       [&](unsigned, Value) { return zero(factorType()); });
}
