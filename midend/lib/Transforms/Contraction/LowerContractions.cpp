//===- LowerContractions.cpp - contractions to vector code ----------------===//
//
// Enters: contractions on memrefs with a `buddy.schedule`. Leaves: loops and
// vector ops. Inputs do not alias outputs: bufferization has seen to it.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "buddy/Transforms/Buffer.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERCONTRACTIONS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// The op that sets all of the op's output to zero, if nothing in between
/// touches that, or null.
static linalg::LinalgOp findZeroFill(linalg::LinalgOp op) {
  Value output = op.getDpsInits()[0], buffer = getBuffer(output);
  for (Operation *prev = op->getPrevNode(); prev; prev = prev->getPrevNode()) {
    auto fill = dyn_cast<linalg::LinalgOp>(prev);
    if (fill && isZeroFill(fill) && fill.getDpsInits()[0] == output)
      return fill;
    if (isMemoryEffectFree(prev) || isa<memref::AllocOp>(prev)) {
      if (buffer && prev == buffer.getDefiningOp())
        return {};
      continue;
    }
    auto effects = getEffectsRecursively(prev);
    auto touches = [&](const MemoryEffects::EffectInstance &effect) {
      Value other = effect.getValue() ? getBuffer(effect.getValue()) : Value();
      return !other || !buffer || other == buffer;
    };
    if (!effects || llvm::any_of(*effects, touches))
      return {};
  }
  return {};
}

/// Whether the contraction's sums have no terms, as an i1.
static Value isEmpty(RewriterBase &rewriter, linalg::LinalgOp op) {
  Location loc = op.getLoc();
  Value terms = arith::ConstantIndexOp::create(rewriter, loc, 1);
  for (auto [range, type] : llvm::zip(op.createLoopRanges(rewriter, loc),
                                      op.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      terms = rewriter.createOrFold<arith::MulIOp>(
          loc, terms,
          getValueOrCreateConstantIndexOp(rewriter, loc, range.size));
  return rewriter.createOrFold<arith::CmpIOp>(
      loc, arith::CmpIPredicate::eq, terms,
      arith::ConstantIndexOp::create(rewriter, loc, 0));
}

namespace {
struct LowerContractions
    : buddy::impl::LowerContractionsBase<LowerContractions> {
  struct Job {
    Contraction contraction;
    ScheduleAttr schedule;
    linalg::LinalgOp fill; ///< Null: C is not zero before.
    std::optional<Epilogue> epilogue;
  };

  void runOnOperation() override {
    std::vector<Job> jobs;
    getOperation().walk([&](linalg::LinalgOp op) {
      auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttr);
      if (!schedule || !op.hasPureBufferSemantics())
        return;
      std::optional<Contraction> c = Contraction::match(op);
      if (c && c->fits(schedule))
        jobs.push_back({*c, schedule, findZeroFill(op), std::nullopt});
    });
    // All are found before one is lowered, while the ops in between are still
    // ones whose effects are known. Each op is the epilogue of one contraction.
    DenseSet<Operation *> taken;
    for (Job &job : jobs) {
      job.epilogue = Epilogue::find(job.contraction);
      if (job.epilogue && !taken.insert(job.epilogue->op).second)
        job.epilogue = std::nullopt;
    }
    IRRewriter rewriter(&getContext());
    for (Job &job : jobs)
      lower(rewriter, job);
  }

  /// Windows are read in vectors along the image's rows: one that lies
  /// otherwise is copied.
  static void makeContiguous(OpBuilder &b, Contraction::Operand &image) {
    auto type = cast<MemRefType>(image.value.getType());
    if (type.isLastDimUnitStride())
      return;
    Location loc = image.value.getLoc();
    SmallVector<Value> sizes;
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (type.isDynamicDim(i))
        sizes.push_back(memref::DimOp::create(b, loc, image.value, i));
    Value copy = memref::AllocOp::create(
        b, loc, MemRefType::get(type.getShape(), type.getElementType()), sizes,
        b.getI64IntegerAttr(64));
    memref::CopyOp::create(b, loc, image.value, copy);
    image.value = copy;
  }

  static void lower(RewriterBase &rewriter, Job &job) {
    linalg::LinalgOp op = job.contraction.op;
    Operation *last = job.epilogue ? job.epilogue->op.getOperation() : op;
    rewriter.setInsertionPoint(last);
    // An empty sum is zero, or what C is, and its epilogue is applied to that:
    // the fill and the epilogue stay for it.
    if (job.contraction.b.windows)
      makeContiguous(rewriter, job.contraction.b);
    Value empty = isEmpty(rewriter, op);
    auto withoutTerms = [&](OpBuilder &b) {
      if (job.fill)
        b.clone(*job.fill);
      if (job.epilogue)
        b.clone(*job.epilogue->op);
    };
    auto withTerms = [&](OpBuilder &b) {
      ContractionEmitter(b, job.contraction, job.schedule, bool(job.fill),
                         job.epilogue)
          .emit();
    };
    std::optional<int64_t> known = getConstantIntValue(empty);
    if (!job.fill && !job.epilogue) {
      withTerms(rewriter);
    } else if (known) {
      *known ? withoutTerms(rewriter) : withTerms(rewriter);
    } else {
      auto branch = scf::IfOp::create(rewriter, op.getLoc(), empty,
                                      /*withElseRegion=*/true);
      OpBuilder then = branch.getThenBodyBuilder();
      withoutTerms(then);
      OpBuilder otherwise = branch.getElseBodyBuilder();
      withTerms(otherwise);
    }
    if (job.fill)
      rewriter.eraseOp(job.fill);
    if (job.epilogue)
      rewriter.eraseOp(job.epilogue->op);
    rewriter.eraseOp(op);
  }
};
} // namespace
