//===- LowerLoops.cpp - linalg on buffers to loops ------------------------===//
//
// Enters: linalg ops and copies on memrefs. Leaves: for each a loop nest, the
// parallel dimensions outside, reductions inside with their accumulators in
// registers.
//
//===----------------------------------------------------------------------===//

#include "CollapseLoops.h"
#include "LoopEmitter.h"
#include "buddy/Transforms/ModuleTarget.h"

#include "mlir/IR/PatternMatch.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERLOOPS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

namespace {
struct LowerLoops : buddy::impl::LowerLoopsBase<LowerLoops> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    FailureOr<buddy::TargetInfo> target = buddy::findTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    // Copies become loops too: upstream's lowering of a strided copy calls a
    // runtime library, and a large copy should be parallel.
    getOperation().walk([&](memref::CopyOp copy) {
      rewriter.setInsertionPoint(copy);
      auto type = cast<MemRefType>(copy.getTarget().getType());
      AffineMap map = rewriter.getMultiDimIdentityMap(
          static_cast<unsigned>(type.getRank()));
      SmallVector<utils::IteratorType> iterators(type.getRank(),
                                                 utils::IteratorType::parallel);
      linalg::GenericOp::create(
          rewriter, copy.getLoc(), copy.getSource(), copy.getTarget(),
          ArrayRef{map, map}, iterators,
          [](OpBuilder &b, Location loc, ValueRange args) {
            linalg::YieldOp::create(b, loc, args.front());
          });
      rewriter.eraseOp(copy);
    });
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) {
      if (op.hasPureBufferSemantics())
        ops.push_back(op);
    });
    for (linalg::LinalgOp op : ops) {
      op = buddy::collapseLoops(rewriter, op);
      rewriter.setInsertionPoint(op);
      buddy::LoopEmitter(rewriter, op, *target).emit();
      rewriter.eraseOp(op);
    }
  }
};
} // namespace
