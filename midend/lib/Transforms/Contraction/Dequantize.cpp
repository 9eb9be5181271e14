//===- Dequantize.cpp - products of floats with quantised weights ---------===//
//
// A task is a panel of the weight. Its blocks of the reduction are dequantised
// to a buffer of the thread, in the form of `#buddy.panels`, so that the
// product is an ordinary contraction with a panel: buddy-lower-contractions
// lowers it, sequentially.
//
//===----------------------------------------------------------------------===//

#include "QuantizedEmitter.h"
#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Schedule.h"

using namespace mlir;
using namespace buddy;

namespace {
class DequantizedMatmulEmitter : QuantizedEmitter {
public:
  DequantizedMatmulEmitter(DequantizedMatmulOp op, const TargetInfo &target)
      : QuantizedEmitter(op, target), op(op), packing(op.getPacking()) {
    vl = panelVectors(target).first;
    while (packing.getPanel() % vl != 0)
      vl /= 2;
    // Half of the first-level cache is left for the rows.
    int64_t rows = target.l1Bytes / 2 / (packing.getPanel() * 4);
    blocksAtOnce = std::clamp<int64_t>(rows / packing.getBlock(), 1,
                                       std::max<int64_t>(packing.blocks(), 1));
  }

  void emit() {
    Value rows = size(op.getRows(), 0);
    Value work =
        mul(rows, std::max<int64_t>(1, 2 * packing.getN() * packing.getK()));
    createParallelLoop(
        b, b.getLoc(), {constant(0)}, {constant(packing.panels())},
        {constant(1)}, work,
        [&](OpBuilder &, Location, ValueRange ivs) { emitPanel(ivs[0]); });
  }

private:
  void emitPanel(Value panel) {
    Value column = mul(panel, packing.getPanel());
    Value columns = minimum(constant(packing.getPanel()),
                            sub(constant(packing.getN()), column));
    Value result = part(op.getOutput(), column, columns);
    linalg::FillOp::create(b, real(0, b.getF32Type()), result);
    int64_t whole = packing.blocks() / blocksAtOnce * blocksAtOnce;
    // Made here, where the region around is there already.
    auto buffer = [&](int64_t blocks) {
      return createThreadBuffer(
          b, b.getLoc(),
          MemRefType::get({1, blocks * packing.getBlock(), packing.getPanel()},
                          b.getF32Type()));
    };
    Value weight = whole > 0 ? buffer(blocksAtOnce) : Value();
    if (whole > 0)
      loop(constant(0), constant(whole), blocksAtOnce, {},
           [&](Value block, ValueRange) {
             emitBlocks(panel, block, blocksAtOnce, weight, result);
             return Values();
           });
    if (whole < packing.blocks())
      emitBlocks(panel, constant(whole), packing.blocks() - whole,
                 buffer(packing.blocks() - whole), result);
  }

  /// Adds the products of `count` blocks.
  void emitBlocks(Value panel, Value first, int64_t count, Value weight,
                  Value result) {
    int64_t k = count * packing.getBlock();
    loop(constant(0), constant(count), 1, {}, [&](Value block, ValueRange) {
      dequantize(panel, add(first, block), weight,
                 mul(block, packing.getBlock()));
      return Values();
    });
    Value rows =
        part(op.getRows(), mul(first, packing.getBlock()), constant(k));
    MLIRContext *context = b.getContext();
    AffineExpr m, n, red;
    bindDims(context, m, n, red);
    auto panels = PanelsAttr::get(context, packing.getN(), k,
                                  packing.getPanel(), 1, false);
    SmallVector<AffineMap> maps = {
        AffineMap::get(3, 0, {m, red}, context),
        AffineMap::get(3, 0, panels.index(n, red), context),
        AffineMap::get(3, 0, {m, n}, context)};
    auto product = linalg::GenericOp::create(
        b, ValueRange{rows, weight}, result, maps,
        ArrayRef{utils::IteratorType::parallel, utils::IteratorType::parallel,
                 utils::IteratorType::reduction},
        [](OpBuilder &inner, Location loc, ValueRange args) {
          Value term = arith::MulFOp::create(inner, loc, args[0], args[1]);
          linalg::YieldOp::create(
              inner, loc,
              ValueRange(arith::AddFOp::create(inner, loc, args[2], term)));
        });
    if (ScheduleAttr schedule = chooseSchedule(
            cast<linalg::LinalgOp>(product.getOperation()), target))
      product->setAttr(kScheduleAttr, schedule);
  }

  /// All rows of a matrix, and some columns.
  Value part(Value matrix, Value column, Value columns) {
    OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
    return memref::SubViewOp::create(
        b, matrix, {zero, getAsOpFoldResult(column)},
        {getAsOpFoldResult(size(matrix, 0)), getAsOpFoldResult(columns)},
        {one, one});
  }

  /// One block of a panel to rows `at`.. of the buffer.
  void dequantize(Value panel, Value block, Value buffer, Value at) {
    auto words = VectorType::get({vl}, b.getI32Type());
    auto floats = VectorType::get({vl}, b.getF32Type());
    Type scaleType = packing.getScaleBits() == 16 ? Type(b.getF16Type())
                                                  : Type(b.getF32Type());
    int64_t groups = packing.getBlock() / 4;
    int64_t loads = groups * packing.getBits() / 8;
    for (int64_t v = 0; v < packing.getPanel(); v += vl) {
      auto load = [&](int64_t offset, Type type) {
        return loadBytes(op.getWeight(),
                         ValueRange{panel, block, constant(offset)}, vl, type);
      };
      auto parameter = [&](int64_t start) {
        return widen(load(start + v * packing.getScaleBits() / 8, scaleType));
      };
      Value scale = parameter(packing.elementBytes());
      Value offset =
          packing.getMins()
              ? parameter(packing.elementBytes() + packing.scaleBytes())
              : real(0, floats);
      auto store = [&](int64_t group, Value word) {
        for (int64_t j = 0; j < 4; ++j) {
          Value byte = arith::AndIOp::create(
              b, arith::ShRUIOp::create(b, word, integer(8 * j, words)),
              integer(0xff, words));
          byte =
              arith::SubIOp::create(b, byte, integer(packing.getZero(), words));
          Value element = vector::FMAOp::create(
              b, arith::SIToFPOp::create(b, floats, byte), scale, offset);
          vector::StoreOp::create(
              b, element, buffer,
              ValueRange{constant(0), add(at, group * 4 + j), constant(v)});
        }
      };
      for (int64_t g = 0; g < loads; ++g) {
        Value word = load((g * packing.getPanel() + v) * 4, b.getI32Type());
        if (packing.getBits() == 8) {
          store(g, word);
          continue;
        }
        Value nibbles = integer(0x0f0f0f0f, words);
        store(g, arith::AndIOp::create(b, word, nibbles));
        store(g + loads,
              arith::AndIOp::create(
                  b, arith::ShRUIOp::create(b, word, integer(4, words)),
                  nibbles));
      }
    }
  }

  DequantizedMatmulOp op;
  PackingAttr packing;
  int64_t vl, blocksAtOnce;
};
} // namespace

void buddy::emitDequantizedMatmul(DequantizedMatmulOp op,
                                  const TargetInfo &target) {
  DequantizedMatmulEmitter(op, target).emit();
}
