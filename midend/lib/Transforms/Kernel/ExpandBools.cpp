//===- ExpandBools.cpp - vectors of bits in memory as bytes ---------------===//
//
// Enters: loads, stores and gathers of vectors of i1, whose elements lie in a
// byte each, as single ones do. Leaves: the same on bytes. LLVM would pack the
// bits of a vector.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace buddy {
#define GEN_PASS_DEF_EXPANDBOOLS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

namespace {
struct ExpandBools : buddy::impl::ExpandBoolsBase<ExpandBools> {
  /// The bits' memory as bytes. A cast that LLVM's types make none.
  static Value bytesOf(OpBuilder &b, Location loc, Value memref) {
    auto type = cast<MemRefType>(memref.getType());
    MemRefType bytes = MemRefType::Builder(type).setElementType(b.getI8Type());
    return UnrealizedConversionCastOp::create(b, loc, bytes, memref)
        .getResult(0);
  }

  static VectorType widen(VectorType type) {
    return type.clone(IntegerType::get(type.getContext(), 8));
  }

  void runOnOperation() override {
    auto isBits = [](Value memref) {
      auto type = dyn_cast<MemRefType>(memref.getType());
      return type && type.getElementType().isInteger(1);
    };
    OpBuilder b(&getContext());
    SmallVector<Operation *> done;
    getOperation().walk([&](Operation *op) {
      Location loc = op->getLoc();
      b.setInsertionPoint(op);
      Value bytes;
      if (auto load = dyn_cast<vector::LoadOp>(op)) {
        if (!isBits(load.getBase()))
          return;
        bytes = vector::LoadOp::create(b, loc, widen(load.getVectorType()),
                                       bytesOf(b, loc, load.getBase()),
                                       load.getIndices());
      } else if (auto store = dyn_cast<vector::StoreOp>(op)) {
        if (!isBits(store.getBase()))
          return;
        Value wide = arith::ExtUIOp::create(
            b, loc, widen(store.getVectorType()), store.getValueToStore());
        vector::StoreOp::create(b, loc, wide, bytesOf(b, loc, store.getBase()),
                                store.getIndices());
        return done.push_back(op);
      } else if (auto gather = dyn_cast<vector::GatherOp>(op)) {
        if (!isBits(gather.getBase()))
          return;
        VectorType wide = widen(gather.getVectorType());
        Value instead =
            arith::ExtUIOp::create(b, loc, wide, gather.getPassThru());
        bytes = vector::GatherOp::create(
            b, loc, wide, bytesOf(b, loc, gather.getBase()),
            gather.getOffsets(), gather.getIndices(), gather.getMask(),
            instead);
      } else {
        return;
      }
      op->getResult(0).replaceAllUsesWith(
          arith::TruncIOp::create(b, loc, op->getResult(0).getType(), bytes));
      done.push_back(op);
    });
    for (Operation *op : done)
      op->erase();
  }
};
} // namespace
