//===- LowerContractions.cpp - contractions to vector code ----------------===//
//
// Enters: contractions on memrefs with a `buddy.schedule`. Leaves: loops and
// vector ops. Inputs do not alias outputs: bufferization has seen to it.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERCONTRACTIONS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// The op writes zero to every element of its one output, and only that.
static bool isZeroFill(linalg::LinalgOp op) {
  if (op.getNumDpsInits() != 1 ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isPermutation())
    return false;
  Block &body = op->getRegion(0).front();
  Value value = body.getTerminator()->getOperand(0);
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    if (arg.getOwner() == &body)
      value = op->getOperand(arg.getArgNumber());
    else
      return false;
  }
  return matchPattern(value, m_Zero()) || matchPattern(value, m_AnyZeroFloat());
}

/// The op that sets all of the op's output to zero with nothing but pure ops,
/// allocations and other such fills in between, or null.
static linalg::LinalgOp findZeroFill(linalg::LinalgOp op) {
  Value output = op.getDpsInits()[0];
  for (Operation *prev = op->getPrevNode(); prev; prev = prev->getPrevNode()) {
    auto fill = dyn_cast<linalg::LinalgOp>(prev);
    if (fill && isZeroFill(fill)) {
      if (fill.getDpsInits()[0] == output)
        return fill;
      continue;
    }
    if (!isMemoryEffectFree(prev) && !isa<memref::AllocOp>(prev))
      return {};
  }
  return {};
}

/// Sums start from zero by themselves, unless they have no terms: then the fill
/// stays.
static void removeFill(RewriterBase &rewriter, linalg::LinalgOp fill,
                       linalg::LinalgOp op) {
  Location loc = op.getLoc();
  Value terms = arith::ConstantIndexOp::create(rewriter, loc, 1);
  for (auto [range, type] : llvm::zip(op.createLoopRanges(rewriter, loc),
                                      op.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      terms = rewriter.createOrFold<arith::MulIOp>(
          loc, terms,
          getValueOrCreateConstantIndexOp(rewriter, loc, range.size));
  Value empty = rewriter.createOrFold<arith::CmpIOp>(
      loc, arith::CmpIPredicate::eq, terms,
      arith::ConstantIndexOp::create(rewriter, loc, 0));
  std::optional<int64_t> known = getConstantIntValue(empty);
  if (!known)
    scf::IfOp::create(rewriter, loc, empty, [&](OpBuilder &, Location) {
      rewriter.clone(*fill);
      scf::YieldOp::create(rewriter, loc);
    });
  else if (*known)
    rewriter.clone(*fill);
  rewriter.eraseOp(fill);
}

namespace {
struct LowerContractions
    : buddy::impl::LowerContractionsBase<LowerContractions> {
  void runOnOperation() override {
    SmallVector<std::pair<linalg::LinalgOp, ScheduleAttr>> ops;
    getOperation().walk([&](linalg::LinalgOp op) {
      auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      if (schedule && op.hasPureBufferSemantics())
        ops.emplace_back(op, schedule);
    });
    IRRewriter rewriter(&getContext());
    for (auto [op, schedule] : ops) {
      std::optional<Contraction> c = Contraction::match(op);
      if (!c)
        continue;
      rewriter.setInsertionPoint(op);
      linalg::LinalgOp fill = findZeroFill(op);
      ContractionEmitter(rewriter, *c, schedule, bool(fill)).emit();
      if (fill)
        removeFill(rewriter, fill, op);
      rewriter.eraseOp(op);
    }
  }
};
} // namespace
