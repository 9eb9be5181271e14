//===- LowerContractions.cpp - contractions to vector code ----------------===//
//
// Enters: contractions on memrefs with a `buddy.schedule`. Leaves: loops and
// vector ops. Inputs do not alias outputs: bufferization has seen to it.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "buddy/Transforms/Buffer.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

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

/// The op may write the buffer.
static bool mayWrite(Operation *op, Value buffer) {
  if (isMemoryEffectFree(op) || isa<memref::AllocOp>(op))
    return false;
  auto effects = getEffectsRecursively(op);
  return !effects ||
         llvm::any_of(*effects, [&](const MemoryEffects::EffectInstance &e) {
           Value other = e.getValue() ? getBuffer(e.getValue()) : Value();
           return !isa<MemoryEffects::Read>(e.getEffect()) &&
                  (!other || other == buffer);
         });
}

/// If an image of windows is a copy of another with zeros around it, made for
/// nothing else than windows, reads that one: `image.low` and `padded` say how.
static void readUnpadded(linalg::LinalgOp op, Contraction::Operand &image) {
  auto alloc = image.value.getDefiningOp<memref::AllocOp>();
  if (!alloc || alloc->getBlock() != op->getBlock() ||
      !alloc.getType().hasStaticShape())
    return;
  memref::CopyOp copy;
  memref::SubViewOp inside;
  linalg::LinalgOp zeros;
  for (Operation *user : alloc->getUsers()) {
    if (auto view = dyn_cast<memref::SubViewOp>(user)) {
      if (inside || !view->hasOneUse())
        return;
      inside = view;
      copy = dyn_cast<memref::CopyOp>(*view->user_begin());
      continue;
    }
    auto other = dyn_cast<linalg::LinalgOp>(user);
    if (!other || other->getBlock() != op->getBlock())
      return;
    if (!zeros && isZeroFill(other) && other.getDpsInits()[0] == image.value)
      zeros = other;
    else if (!other->hasAttr(kWindowsAttr) ||
             llvm::is_contained(other.getDpsInits(), image.value))
      return;
  }
  if (!copy || !zeros || copy.getTarget() != inside.getResult() ||
      copy->getBlock() != op->getBlock() || !zeros->isBeforeInBlock(copy) ||
      !copy->isBeforeInBlock(op))
    return;
  auto source = cast<MemRefType>(copy.getSource().getType());
  Value buffer = getBuffer(copy.getSource());
  int64_t rank = source.getRank(), own = image.windows.getImage().size();
  if (!buffer || rank != alloc.getType().getRank() ||
      !source.hasStaticShape() || !source.isLastDimUnitStride() ||
      llvm::any_of(inside.getStaticStrides(), [](int64_t s) { return s != 1; }))
    return;
  for (int64_t i = 0; i < rank; ++i)
    if (ShapedType::isDynamic(inside.getStaticOffsets()[i]) ||
        (i < rank - own &&
         source.getDimSize(i) != alloc.getType().getDimSize(i)))
      return;
  for (Operation *between = copy->getNextNode(); between != op;
       between = between->getNextNode())
    if (mayWrite(between, buffer))
      return;
  image.low = llvm::to_vector(inside.getStaticOffsets().take_back(own));
  image.padded = llvm::to_vector(alloc.getType().getShape().take_back(own));
  image.value = copy.getSource();
}

/// Erases an image with zeros around it that nothing reads any more.
static void eraseUnread(RewriterBase &rewriter, memref::AllocOp alloc) {
  SmallVector<Operation *> writers;
  for (Operation *user : alloc->getUsers()) {
    if (auto view = dyn_cast<memref::SubViewOp>(user)) {
      llvm::append_range(writers, view->getUsers());
      writers.push_back(view);
      continue;
    }
    auto op = dyn_cast<linalg::LinalgOp>(user);
    if (!op || !isZeroFill(op))
      return;
    writers.push_back(op);
  }
  for (Operation *writer : writers)
    rewriter.eraseOp(writer);
  rewriter.eraseOp(alloc);
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
    SetVector<Operation *> padded;
    for (Job &job : jobs) {
      Contraction::Operand &image = job.contraction.b;
      Value before = image.value;
      if (image.windows)
        readUnpadded(job.contraction.op, image);
      if (image.value != before)
        padded.insert(before.getDefiningOp());
    }
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
    for (Operation *alloc : padded)
      eraseUnread(rewriter, cast<memref::AllocOp>(alloc));
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
