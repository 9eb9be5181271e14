//===- QuantizedMatmul.cpp - products with quantised weights --------------===//
//
// The limit of one row is the weight's bytes, that of many rows byte products.
// A panel of rows of the weight is one stream in memory; a register tile takes
// each of its vectors once for all rows of x. A block's products are summed in
// i32 and enter the f32 sums with the two scales, as in llama.cpp's dot
// products of q4_1 and q8_1 blocks; the panel layout is that of byte dot
// products (one 32-bit word of four columns a lane), and of byte tiles.
//
// AMX's tiles multiply bytes too, 16 rows at a time. A block's scale ends their
// depth at 32 bytes, half of what a product of tiles could take in the same
// time. By reckoning for Sapphire Rapids, for 16 rows, 16 columns and a block:
// 128 byte dot products are 64 cycles and entering the sums (convert, scale,
// multiply-add a row) 24 more; a product of tiles is 16 cycles of another unit,
// twice with a zero point, its store and the loads 16 each beside the same 24.
// Not measured.
//
//===----------------------------------------------------------------------===//

#include "QuantizedEmitter.h"
#include "buddy/Transforms/Parallel.h"
#include "mlir/Dialect/AMX/AMXDialect.h"

using namespace mlir;
using namespace buddy;

/// Rows of a matrix tile, and columns of its sums.
static constexpr int64_t kTileRows = 16;

namespace {
class QuantizedMatmulEmitter : QuantizedEmitter {
public:
  QuantizedMatmulEmitter(QuantizedMatmulOp op, ScheduleAttr schedule,
                         const TargetInfo &target)
      : QuantizedEmitter(op, target), op(op), schedule(schedule),
        packing(op.getPacking()) {
    vl = schedule.getVl();
    // A panel is whole vectors; shorter ones serve an odd panel.
    while (packing.getPanel() % vl != 0)
      vl /= 2;
    vectors = packing.getPanel() / vl;
    words = VectorType::get({vl}, b.getI32Type());
    floats = VectorType::get({vl}, b.getF32Type());
  }

  void emit() {
    Value rows = size(op.getElements(), 0);
    // A byte product costs about a quarter of a float one.
    Value work =
        mul(rows, std::max<int64_t>(1, packing.getN() * packing.getK() / 2));
    int64_t largest = schedule.getMr();
    Value mc = constant(schedule.getMc());
    createParallelLoop(
        b, b.getLoc(), {constant(0), constant(0)},
        {rows, constant(packing.panels())}, {mc, constant(1)}, work,
        [&](OpBuilder &, Location, ValueRange ivs) {
          Value start = ivs[0], end = minimum(rows, add(ivs[0], mc));
          if (usesTiles()) {
            makeTileBuffers();
            Value left = sub(end, start);
            Value few = lessThan(left, constant(schedule.getTileM()));
            Value whole = b.createOrFold<arith::SelectOp>(
                few, start, add(start, roundDown(left, constant(kTileRows))));
            loop(start, whole, kTileRows, {}, [&](Value row, ValueRange) {
              for (int64_t v = 0; v < vectors; ++v)
                emitMatrixTile(row, ivs[1], v);
              return Values();
            });
            start = whole;
          }
          for (int64_t count = largest; count > 0; count /= 2) {
            Value whole = end;
            if (count > 1) {
              Value left = b.createOrFold<arith::SubIOp>(end, start);
              whole = b.createOrFold<arith::SubIOp>(
                  end, b.createOrFold<arith::RemUIOp>(left, constant(count)));
            }
            loop(start, whole, count, {}, [&](Value row, ValueRange) {
              emitTile(row, count, ivs[1]);
              return Values();
            });
            start = whole;
          }
        });
  }

private:
  void emitTile(Value row, int64_t rows, Value panel) {
    Values sums(rows * vectors, real(0, floats));
    sums = loop(constant(0), constant(packing.blocks()), 1, sums,
                [&](Value block, ValueRange carried) {
                  return emitBlock(row, rows, panel, block, carried);
                });
    for (int64_t v = 0; v < vectors; ++v)
      for (int64_t i = 0; i < rows; ++i)
        storeSum(add(row, i), panel, v, sums[i * vectors + v]);
  }

  /// Columns of vector `v` of a panel, but for those beyond the last.
  void storeSum(Value row, Value panel, int64_t v, Value sum) {
    Value first = add(mul(panel, packing.getPanel()), v * vl);
    Value at[] = {row, first};
    if (packing.getN() % packing.getPanel() == 0) {
      vector::StoreOp::create(b, sum, op.getOutput(), at);
      return;
    }
    Value mask = vector::CreateMaskOp::create(
        b, VectorType::get({vl}, b.getI1Type()),
        b.createOrFold<arith::SubIOp>(constant(packing.getN()), first));
    vector::MaskedStoreOp::create(b, op.getOutput(), at, mask, sum);
  }

  Values emitBlock(Value row, int64_t rows, Value panel, Value block,
                   ValueRange carried) {
    Values result(carried);
    Values products;
    for (int64_t i = 0; i < rows; ++i)
      products.append(vectors, zeroPoint(add(row, i), block));
    int64_t groups = packing.getBlock() / 4;
    int64_t loads = groups * packing.getBits() / 8;
    for (int64_t g = 0; g < loads; ++g) {
      Values loaded;
      for (int64_t v = 0; v < vectors; ++v)
        loaded.push_back(loadWeight(panel, block,
                                    (g * packing.getPanel() + v * vl) * 4, vl,
                                    b.getI32Type()));
      if (packing.getBits() == 8) {
        multiply(row, rows, block, g, loaded, products);
        continue;
      }
      Values low, high;
      for (Value word : loaded) {
        low.push_back(nibbles(word, /*high=*/false));
        high.push_back(nibbles(word, /*high=*/true));
      }
      multiply(row, rows, block, g, low, products);
      multiply(row, rows, block, g + loads, high, products);
    }
    Values scales, minima;
    for (int64_t v = 0; v < vectors; ++v) {
      scales.push_back(loadScale(panel, block, v));
      minima.push_back(loadMinimum(panel, block, v));
    }
    for (int64_t i = 0; i < rows; ++i)
      addBlock(add(row, i), block,
               ArrayRef(products).slice(i * vectors, vectors), scales, minima,
               MutableArrayRef(result).slice(i * vectors, vectors));
    return result;
  }

  /// What a row's sums of a block's products start with, as the zero point is
  /// taken off beforehand: Σ (u - z) q = Σ u q - z Σ q.
  Value zeroPoint(Value row, Value block) {
    if (packing.getZero() == 0)
      return integer(0, words);
    Value sum = memref::LoadOp::create(b, op.getSums(), ValueRange{row, block});
    return broadcast(arith::MulIOp::create(
                         b, sum, integer(-packing.getZero(), sum.getType())),
                     vl);
  }

  /// The low or high half of each byte, as bytes.
  Value nibbles(Value word, bool high) {
    if (high)
      word = arith::ShRUIOp::create(b, word, integer(4, words));
    return arith::AndIOp::create(b, word, integer(0x0f0f0f0f, words));
  }

  Value loadScale(Value panel, Value block, int64_t v, int64_t start = 0) {
    Type type = packing.getScaleBits() == 16 ? Type(b.getF16Type())
                                             : Type(b.getF32Type());
    int64_t offset =
        packing.elementBytes() + start + v * vl * packing.getScaleBits() / 8;
    return widen(loadWeight(panel, block, offset, vl, type));
  }
  /// Null if the format has none.
  Value loadMinimum(Value panel, Value block, int64_t v) {
    return packing.getMins() ? loadScale(panel, block, v, packing.scaleBytes())
                             : Value();
  }

  /// A row's vectors of a block's products into its sums, with the scales.
  void addBlock(Value row, Value block, ArrayRef<Value> products,
                ArrayRef<Value> scales, ArrayRef<Value> minima,
                MutableArrayRef<Value> sums) {
    Value at[] = {row, block};
    Value scale = memref::LoadOp::create(b, op.getScales(), at);
    Value scaleVector = broadcast(scale, vl), sumVector;
    if (packing.getMins()) {
      Value sum = arith::SIToFPOp::create(
          b, b.getF32Type(), memref::LoadOp::create(b, op.getSums(), at));
      sumVector = broadcast(arith::MulFOp::create(b, sum, scale), vl);
    }
    for (size_t v = 0; v < sums.size(); ++v) {
      Value product = arith::SIToFPOp::create(b, floats, products[v]);
      Value factor = arith::MulFOp::create(b, scales[v], scaleVector);
      sums[v] = vector::FMAOp::create(b, product, factor, sums[v]);
      if (sumVector)
        sums[v] = vector::FMAOp::create(b, sumVector, minima[v], sums[v]);
    }
  }

  //===-- Byte tiles ------------------------------------------------------===//

  bool usesTiles() const {
    int64_t block = packing.getBlock();
    return schedule.getTileM() > 0 && vl == kTileRows && block % 4 == 0 &&
           block <= 64 && packing.getZero() <= 128;
  }

  Type byteTile() {
    return amx::TileType::get({packing.getBlock() / 4, vl * 4}, b.getI8Type());
  }

  void makeTileBuffers() {
    auto buffer = [&](int64_t elements, Type type) {
      return createThreadBuffer(b, b.getLoc(),
                                MemRefType::get({elements}, type), {});
    };
    tileSums = buffer(kTileRows * vl, b.getI32Type());
    int64_t bytes = packing.getBlock() * vl;
    if (packing.getBits() == 4)
      tileBytes = buffer(bytes, b.getI8Type());
    if (packing.getZero() == 0)
      return;
    zeroPoints = buffer(bytes, b.getI8Type());
    VectorType type = VectorType::get({vl * 4}, b.getI8Type());
    for (int64_t i = 0; i < bytes; i += vl * 4)
      vector::StoreOp::create(b, integer(-packing.getZero(), type), zeroPoints,
                              ValueRange{constant(i)});
  }

  /// 16 rows from `row` on of the panel's vector `v`.
  void emitMatrixTile(Value row, Value panel, int64_t v) {
    Value stride = memref::ExtractStridedMetadataOp::create(b, op.getElements())
                       .getStrides()[0];
    Value zeros;
    if (zeroPoints)
      zeros = amx::TileLoadOp::create(
          b, byteTile(), zeroPoints, ValueRange{constant(0)}, constant(vl * 4));
    Values sums(kTileRows, real(0, floats));
    sums = loop(constant(0), constant(packing.blocks()), 1, sums,
                [&](Value block, ValueRange carried) {
                  return emitMatrixBlock(row, panel, v, block, stride, zeros,
                                         carried);
                });
    for (auto [i, sum] : llvm::enumerate(sums))
      storeSum(add(row, i), panel, v, sum);
  }

  /// `zeros`: the negative zero point in all bytes, or null. Its products come
  /// from the tiles' unit, which has time: the sums of a row's bytes would be
  /// scaled, broadcast and added by vectors, which have not.
  Values emitMatrixBlock(Value row, Value panel, int64_t v, Value block,
                         Value stride, Value zeros, ValueRange carried) {
    Type sumType = amx::TileType::get({kTileRows, vl}, b.getI32Type());
    Value x = amx::TileLoadOp::create(
        b, amx::TileType::get({kTileRows, packing.getBlock()}, b.getI8Type()),
        op.getElements(), ValueRange{row, block, constant(0)}, stride);
    Value w = loadByteTile(panel, v, block);
    Value products = amx::TileZeroOp::create(b, sumType);
    auto multiply = [&](Value bytes, bool isUnsigned) {
      products = amx::TileMulIOp::create(b, sumType, x, bytes, products,
                                         /*isZextLhs=*/false, isUnsigned);
    };
    if (zeros)
      multiply(zeros, /*isUnsigned=*/false);
    multiply(w, /*isUnsigned=*/true);
    amx::TileStoreOp::create(b, tileSums, ValueRange{constant(0)}, products,
                             constant(vl));
    Value scale = loadScale(panel, block, v);
    Value minimum = loadMinimum(panel, block, v);
    Values sums(carried);
    for (int64_t i = 0; i < kTileRows; ++i) {
      Value product = vector::LoadOp::create(b, words, tileSums,
                                             ValueRange{constant(i * vl)});
      addBlock(add(row, i), block, product, scale, minimum,
               MutableArrayRef(sums).slice(i, 1));
    }
    return sums;
  }

  /// A block's bytes of vector `v` of a panel, one group of four a row.
  Value loadByteTile(Value panel, int64_t v, Value block) {
    int64_t groups = packing.getBlock() / 4;
    auto offset = [&](int64_t group) {
      return (group * packing.getPanel() + v * vl) * 4;
    };
    if (packing.getBits() == 8)
      return amx::TileLoadOp::create(
          b, byteTile(), op.getWeight(),
          ValueRange{panel, block, constant(offset(0))},
          constant(packing.getPanel() * 4));
    for (int64_t g = 0; g < groups / 2; ++g) {
      Value word = loadWeight(panel, block, offset(g), vl, b.getI32Type());
      for (bool high : {false, true}) {
        Value at = constant((g + (high ? groups / 2 : 0)) * vl * 4);
        vector::StoreOp::create(b, asBytes(nibbles(word, high)), tileBytes, at);
      }
    }
    return amx::TileLoadOp::create(b, byteTile(), tileBytes,
                                   ValueRange{constant(0)}, constant(vl * 4));
  }

  //===-- Byte dot products -----------------------------------------------===//

  Value loadWeight(Value panel, Value block, int64_t offset, int64_t lanes,
                   Type type) {
    return loadBytes(op.getWeight(), ValueRange{panel, block, constant(offset)},
                     lanes, type);
  }

  /// products += the weight's words times the four elements of group `group`.
  void multiply(Value row, int64_t rows, Value block, int64_t group,
                ArrayRef<Value> weight, MutableArrayRef<Value> products) {
    for (int64_t i = 0; i < rows; ++i) {
      Value at[] = {add(row, i), block, constant(group * 4)};
      std::string name = byteDotProduct();
      if (!name.empty()) {
        Value word = vector::ExtractOp::create(
            b, loadBytes(op.getElements(), at, 1, b.getI32Type()), 0);
        Value factor = asBytes(broadcast(word, vl));
        for (int64_t v = 0; v < vectors; ++v) {
          Value &sum = products[i * vectors + v];
          sum = LLVM::CallIntrinsicOp::create(
                    b, words, b.getStringAttr(name),
                    ValueRange{sum, asBytes(weight[v]), factor})
                    .getResult(0);
        }
        continue;
      }
      for (int64_t j = 0; j < 4; ++j) {
        at[2] = constant(group * 4 + j);
        Value element = memref::LoadOp::create(b, op.getElements(), at);
        Value factor =
            broadcast(arith::ExtSIOp::create(b, b.getI32Type(), element), vl);
        for (int64_t v = 0; v < vectors; ++v) {
          Value byte = arith::AndIOp::create(
              b, arith::ShRUIOp::create(b, weight[v], integer(8 * j, words)),
              integer(0xff, words));
          Value &sum = products[i * vectors + v];
          sum = arith::AddIOp::create(b, sum,
                                      arith::MulIOp::create(b, byte, factor));
        }
      }
    }
  }

  Value asBytes(Value value) {
    return vector::BitCastOp::create(
        b, VectorType::get({vl * 4}, b.getI8Type()), value);
  }

  /// The instruction that adds products of four unsigned and signed bytes to
  /// each 32-bit lane; empty if the target has none of this length.
  std::string byteDotProduct() const {
    if ((vl != 4 && vl != 8 && vl != 16) || !target.hasByteDot(vl * 32))
      return {};
    return "llvm.x86.avx512.vpdpbusd." + std::to_string(vl * 32);
  }

  QuantizedMatmulOp op;
  ScheduleAttr schedule;
  PackingAttr packing;
  int64_t vl, vectors;
  VectorType words, floats;
  Value tileSums, tileBytes, zeroPoints; ///< Buffers of the thread, for tiles.
};
} // namespace

void buddy::emitQuantizedMatmul(QuantizedMatmulOp op, ScheduleAttr schedule,
                                const TargetInfo &target) {
  QuantizedMatmulEmitter(op, schedule, target).emit();
}
