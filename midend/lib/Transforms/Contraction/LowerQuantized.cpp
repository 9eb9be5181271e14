//===- LowerQuantized.cpp - products with quantised weights ---------------===//
//
// Enters: the dialect's quantised ops on memrefs. Leaves: loops and vector ops.
//
// The limit of one row is the weight's bytes, that of many rows byte products.
// A panel of rows of the weight is one stream in memory; a register tile takes
// each of its vectors once for all rows of x. A block's products are summed in
// i32 and enter the f32 sums with the two scales, as in llama.cpp's dot
// products of q4_1 and q8_1 blocks; the panel layout is that of byte dot
// products (one 32-bit word of four columns a lane).
//
//===----------------------------------------------------------------------===//

#include "QuantizedEmitter.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERQUANTIZED
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

using Values = SmallVector<Value>;

/// The largest magnitude of a quantised element.
static constexpr double kLargest = 127;

namespace {
//===-- Rows --------------------------------------------------------------===//

class QuantizeEmitter : QuantizedEmitter {
public:
  QuantizeEmitter(QuantizeOp op, const TargetInfo &target)
      : QuantizedEmitter(op, target), op(op) {
    block = cast<ShapedType>(op.getElements().getType()).getDimSize(2);
    lanes = 1;
    // Vectors of a fixed length that divides the block.
    int64_t most = target.vectorLength(32) * (target.scalableVectors ? 2 : 1);
    while (lanes * 2 <= most && block % (lanes * 2) == 0)
      lanes *= 2;
  }

  void emit() {
    Value rows = size(op.getElements(), 0), blocks = size(op.getElements(), 1);
    Value work = b.createOrFold<arith::MulIOp>(
        b.createOrFold<arith::MulIOp>(rows, blocks), constant(2 * block));
    createParallelLoop(b, b.getLoc(), {constant(0)}, {rows}, {constant(1)},
                       work, [&](OpBuilder &, Location, ValueRange ivs) {
                         loop(constant(0), blocks, 1, {},
                              [&](Value block, ValueRange) {
                                emitBlock(ivs[0], block);
                                return Values();
                              });
                       });
  }

private:
  void emitBlock(Value row, Value number) {
    auto type = VectorType::get({lanes}, b.getF32Type());
    auto ints = VectorType::get({lanes}, b.getI32Type());
    Value start = mul(number, block);
    Value largest = real(0, type);
    // f64 in f32: what is quantised to 8 bits needs no more.
    auto load = [&](int64_t i) -> Value {
      Type element = getElementTypeOrSelf(op.getInput().getType());
      Value v =
          vector::LoadOp::create(b, VectorType::get({lanes}, element),
                                 op.getInput(), ValueRange{row, add(start, i)});
      if (element.isF64())
        return arith::TruncFOp::create(b, type, v);
      return widen(v);
    };
    for (int64_t i = 0; i < block; i += lanes)
      largest = arith::MaximumFOp::create(b, largest,
                                          math::AbsFOp::create(b, load(i)));
    Value most = vector::ReductionOp::create(b, vector::CombiningKind::MAXIMUMF,
                                             largest);
    Value scale =
        arith::MulFOp::create(b, most, real(1 / kLargest, most.getType()));
    Value isZero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, most,
                                         real(0, most.getType()));
    Value inverse = arith::SelectOp::create(
        b, isZero, real(0, most.getType()),
        arith::DivFOp::create(b, real(kLargest, most.getType()), most));
    Value factor = broadcast(inverse, lanes);
    Value sum = integer(0, ints);
    for (int64_t i = 0; i < block; i += lanes) {
      Value v = math::RoundEvenOp::create(
          b, arith::MulFOp::create(b, load(i), factor));
      // In range but for rounding and what is not a number, of which a
      // conversion to integers would make anything at all.
      v = arith::MaxNumFOp::create(b, v, real(-kLargest, type));
      v = arith::MinNumFOp::create(b, v, real(kLargest, type));
      Value q = arith::FPToSIOp::create(b, ints, v);
      sum = arith::AddIOp::create(b, sum, q);
      Value bytes = arith::TruncIOp::create(
          b, VectorType::get({lanes}, b.getI8Type()), q);
      vector::StoreOp::create(b, bytes, op.getElements(),
                              ValueRange{row, number, constant(i)});
    }
    memref::StoreOp::create(b, scale, op.getScales(), ValueRange{row, number});
    memref::StoreOp::create(
        b, vector::ReductionOp::create(b, vector::CombiningKind::ADD, sum),
        op.getSums(), ValueRange{row, number});
  }

  QuantizeOp op;
  int64_t block, lanes;
};

//===-- Products ----------------------------------------------------------===//

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
    Value column = mul(panel, packing.getPanel());
    for (int64_t v = 0; v < vectors; ++v) {
      Value first = add(column, v * vl);
      Value mask;
      if (packing.getN() % packing.getPanel() != 0)
        mask = vector::CreateMaskOp::create(
            b, VectorType::get({vl}, b.getI1Type()),
            b.createOrFold<arith::SubIOp>(constant(packing.getN()), first));
      for (int64_t i = 0; i < rows; ++i) {
        Value at[] = {add(row, i), first};
        Value sum = sums[i * vectors + v];
        if (mask)
          vector::MaskedStoreOp::create(b, op.getOutput(), at, mask, sum);
        else
          vector::StoreOp::create(b, sum, op.getOutput(), at);
      }
    }
  }

  Values emitBlock(Value row, int64_t rows, Value panel, Value block,
                   ValueRange carried) {
    Values result(carried);
    Values products;
    // The zero point is taken off beforehand: Σ (u - z) q = Σ u q - z Σ q.
    for (int64_t i = 0; i < rows; ++i) {
      Value start = integer(0, words);
      if (packing.getZero() != 0) {
        Value sum = memref::LoadOp::create(b, op.getSums(),
                                           ValueRange{add(row, i), block});
        start =
            broadcast(arith::MulIOp::create(
                          b, sum, integer(-packing.getZero(), sum.getType())),
                      vl);
      }
      products.append(vectors, start);
    }
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
      Value four = integer(4, words), nibbles = integer(0x0f0f0f0f, words);
      for (Value word : loaded) {
        low.push_back(arith::AndIOp::create(b, word, nibbles));
        high.push_back(arith::AndIOp::create(
            b, arith::ShRUIOp::create(b, word, four), nibbles));
      }
      multiply(row, rows, block, g, low, products);
      multiply(row, rows, block, g + loads, high, products);
    }
    Type scaleType = packing.getScaleBits() == 16 ? Type(b.getF16Type())
                                                  : Type(b.getF32Type());
    Values scales, minima;
    int64_t perVector = vl * packing.getScaleBits() / 8;
    for (int64_t v = 0; v < vectors; ++v) {
      int64_t offset = packing.elementBytes() + v * perVector;
      scales.push_back(widen(loadWeight(panel, block, offset, vl, scaleType)));
      if (packing.getMins())
        minima.push_back(widen(loadWeight(
            panel, block, offset + packing.scaleBytes(), vl, scaleType)));
    }
    for (int64_t i = 0; i < rows; ++i) {
      Value at[] = {add(row, i), block};
      Value scale = memref::LoadOp::create(b, op.getScales(), at);
      Value scaleVector = broadcast(scale, vl), sumVector;
      if (packing.getMins()) {
        Value sum = arith::SIToFPOp::create(
            b, b.getF32Type(), memref::LoadOp::create(b, op.getSums(), at));
        sumVector = broadcast(arith::MulFOp::create(b, sum, scale), vl);
      }
      for (int64_t v = 0; v < vectors; ++v) {
        Value &sum = result[i * vectors + v];
        Value product =
            arith::SIToFPOp::create(b, floats, products[i * vectors + v]);
        Value factor = arith::MulFOp::create(b, scales[v], scaleVector);
        sum = vector::FMAOp::create(b, product, factor, sum);
        if (sumVector)
          sum = vector::FMAOp::create(b, sumVector, minima[v], sum);
      }
    }
    return result;
  }

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
};

//===-- Elements ----------------------------------------------------------===//

class QuantizedElementEmitter : QuantizedEmitter {
public:
  QuantizedElementEmitter(QuantizedElementOp op, const TargetInfo &target)
      : QuantizedEmitter(op, target), op(op), packing(op.getPacking()) {}

  void emit() {
    auto divide = [&](Value value, int64_t by) -> std::pair<Value, Value> {
      return {b.createOrFold<arith::DivUIOp>(value, constant(by)),
              b.createOrFold<arith::RemUIOp>(value, constant(by))};
    };
    Value panel, lane, block, column, group, byte;
    std::tie(panel, lane) = divide(op.getRow(), packing.getPanel());
    std::tie(block, column) = divide(op.getColumn(), packing.getBlock());
    std::tie(group, byte) = divide(column, 4);
    Value isHigh;
    if (packing.getBits() == 4) {
      auto [half, within] = divide(group, packing.getBlock() / 8);
      isHigh =
          arith::CmpIOp::create(b, arith::CmpIPredicate::ne, half, constant(0));
      group = within;
    }
    Value offset = add(mul(add(mul(group, packing.getPanel()), lane), 4), byte);
    Value element = memref::LoadOp::create(b, op.getWeight(),
                                           ValueRange{panel, block, offset});
    element = arith::ExtUIOp::create(b, b.getI32Type(), element);
    if (isHigh) {
      Value high =
          arith::ShRUIOp::create(b, element, integer(4, element.getType()));
      element = arith::SelectOp::create(b, isHigh, high, element);
      element =
          arith::AndIOp::create(b, element, integer(15, element.getType()));
    }
    element = arith::SubIOp::create(
        b, element, integer(packing.getZero(), element.getType()));
    Value value = arith::SIToFPOp::create(b, b.getF32Type(), element);
    Type scaleType = packing.getScaleBits() == 16 ? Type(b.getF16Type())
                                                  : Type(b.getF32Type());
    auto parameter = [&](int64_t start) -> Value {
      Value at = add(mul(lane, packing.getScaleBits() / 8), start);
      return widen(vector::ExtractOp::create(
          b,
          loadBytes(op.getWeight(), ValueRange{panel, block, at}, 1, scaleType),
          0));
    };
    value = arith::MulFOp::create(b, value, parameter(packing.elementBytes()));
    if (packing.getMins())
      value = arith::AddFOp::create(
          b, value, parameter(packing.elementBytes() + packing.scaleBytes()));
    op.replaceAllUsesWith(value);
  }

private:
  QuantizedElementOp op;
  PackingAttr packing;
};

struct LowerQuantized : buddy::impl::LowerQuantizedBase<LowerQuantized> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) {
      if (isa<QuantizeOp, QuantizedMatmulOp, DequantizedMatmulOp,
              QuantizedElementOp>(op) &&
          isa<MemRefType>(op->getOperand(0).getType()))
        ops.push_back(op);
    });
    if (ops.empty())
      return;
    FailureOr<TargetInfo> target = findTarget(function);
    if (failed(target))
      return signalPassFailure();
    for (Operation *op : ops) {
      if (auto quantize = dyn_cast<QuantizeOp>(op))
        QuantizeEmitter(quantize, *target).emit();
      else if (auto element = dyn_cast<QuantizedElementOp>(op))
        QuantizedElementEmitter(element, *target).emit();
      else if (auto matmul = dyn_cast<DequantizedMatmulOp>(op))
        emitDequantizedMatmul(matmul, *target);
      else if (auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttr))
        QuantizedMatmulEmitter(cast<QuantizedMatmulOp>(op), schedule, *target)
            .emit();
      else {
        op->emitError("has no ") << kScheduleAttr;
        return signalPassFailure();
      }
      op->erase();
    }
  }
};
} // namespace
