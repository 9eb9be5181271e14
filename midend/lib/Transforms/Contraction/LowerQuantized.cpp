//===- LowerQuantized.cpp - quantised ops to vector code ------------------===//
//
// Enters: the dialect's quantised ops on memrefs. Leaves: loops and vector ops.
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
        emitQuantizedMatmul(cast<QuantizedMatmulOp>(op), schedule, *target);
      else {
        op->emitError("has no ") << kScheduleAttr;
        return signalPassFailure();
      }
      op->erase();
    }
  }
};
} // namespace
