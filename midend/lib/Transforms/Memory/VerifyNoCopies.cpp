//===- VerifyNoCopies.cpp - weights and states stay where they are --------===//
//
// Enters: bufferized functions, copies and calls still ops of their own.
// Nothing is changed. A copy is a memref.copy, or a linalg op that only yields
// its input and reads each element once, into a buffer that was allocated for
// it. Vectors are let pass: a bias that starts an accumulation costs a row.
// So are copies that the program's meaning asks for, since the old value is
// needed after a write (a remark tells of them), and functions that say
// `buddy.may_copy`.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "buddy/Transforms/Remarks.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace buddy {
#define GEN_PASS_DEF_VERIFYNOCOPIES
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// True if a subview certainly leaves out a part of its source.
static bool isPart(memref::SubViewOp view) {
  auto source = view.getSourceType();
  for (auto [dim, size] : llvm::enumerate(view.getMixedSizes())) {
    std::optional<int64_t> number = getConstantIntValue(size);
    if (number && !source.isDynamicDim(dim)) {
      if (*number != source.getDimSize(dim))
        return true;
      continue;
    }
    if (number)
      return true;
    // A size that is the dimension itself takes all of it; any other size is a
    // part, for which it was made.
    auto whole = cast<Value>(size).getDefiningOp<memref::DimOp>();
    if (!whole || whole.getSource() != view.getSource() ||
        whole.getConstantIndex() != int64_t(dim))
      return true;
  }
  return false;
}

/// The buffer behind views made in the same function.
static Value origin(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  return memref;
}

/// The buffer that an op fills with a copy of `source`, or null.
static Value copyTarget(Operation *op, Value source) {
  if (auto copy = dyn_cast<memref::CopyOp>(op))
    return copy.getSource() == source ? copy.getTarget() : Value();
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp || linalgOp->getNumRegions() != 1 ||
      linalgOp.getNumDpsInits() != 1)
    return {};
  Operation *yield = linalgOp.getBlock()->getTerminator();
  auto arg = dyn_cast<BlockArgument>(yield->getOperand(0));
  if (!arg || arg.getOwner() != linalgOp.getBlock())
    return {};
  OpOperand *operand = linalgOp.getMatchingOpOperand(arg);
  // A broadcast or a gather reads elements often or some of them.
  if (!operand || operand->get() != source ||
      !linalgOp.getMatchingIndexingMap(operand).isPermutation())
    return {};
  return linalgOp.getDpsInitOperand(0)->get();
}

namespace {
/// An op that reads or writes a buffer or a part of it.
struct Access {
  Operation *op;
  bool reads, writes, whole;
};
} // namespace

static void collectAccesses(Value value, bool whole,
                            SmallVectorImpl<Access> &accesses) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto view = dyn_cast<ViewLikeOpInterface>(user);
        view && view.getViewSource() == value) {
      auto slice = dyn_cast<memref::SubViewOp>(user);
      for (Value result : user->getResults())
        if (isa<BaseMemRefType>(result.getType()))
          collectAccesses(result, whole && !(slice && isPart(slice)), accesses);
      continue;
    }
    if (isMemoryEffectFree(user) && user->getNumRegions() == 0)
      continue;
    // What an op with effects of unknown kind does is any of them.
    Access access{user, true, true, whole};
    if (auto known = dyn_cast<MemoryEffectOpInterface>(user)) {
      SmallVector<MemoryEffects::EffectInstance> effects;
      known.getEffectsOnValue(value, effects);
      access.reads = access.writes = false;
      for (const MemoryEffects::EffectInstance &effect : effects) {
        access.reads |= isa<MemoryEffects::Read>(effect.getEffect());
        access.writes |= isa<MemoryEffects::Write>(effect.getEffect());
      }
    }
    accesses.push_back(access);
  }
}

/// True if `copy` of `source` into `target` keeps apart two values that are
/// needed at the same time: the source is overwritten, and the copy read after;
/// or the copy is changed, and the source read after. There all of the source
/// must be read: a write of one part leaves the others as they were.
static bool isNeeded(Operation *copy, Value source, Value target) {
  DenseMap<Operation *, unsigned> order;
  copy->getParentOfType<func::FuncOp>().walk<WalkOrder::PreOrder>(
      [&](Operation *op) { order[op] = order.size(); });
  auto isBefore = [&](Operation *a, Operation *b) {
    return order.lookup(a) < order.lookup(b);
  };
  SmallVector<Access> ofSource, ofTarget;
  collectAccesses(origin(source), true, ofSource);
  collectAccesses(origin(target), true, ofTarget);
  auto readAfterWrite = [&](ArrayRef<Access> written, ArrayRef<Access> read,
                            bool wholeOnly) {
    return llvm::any_of(written, [&](const Access &write) {
      return write.writes && isBefore(copy, write.op) &&
             llvm::any_of(read, [&](const Access &later) {
               return later.reads && (later.whole || !wholeOnly) &&
                      isBefore(write.op, later.op);
             });
    });
  };
  return readAfterWrite(ofSource, ofTarget, /*wholeOnly=*/false) ||
         readAfterWrite(ofTarget, ofSource, /*wholeOnly=*/true);
}

namespace {
struct VerifyNoCopies : buddy::impl::VerifyNoCopiesBase<VerifyNoCopies> {
  /// Follows the views of `root` from `value`, which is the whole of it.
  void follow(Value value, StringRef kind, StringRef name) {
    if (!seen.insert(value).second)
      return;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto call = dyn_cast<func::CallOp>(user)) {
        auto callee = symbols->lookup<func::FuncOp>(call.getCallee());
        if (callee && !callee.isExternal())
          follow(callee.getArgument(use.getOperandNumber()), kind, name);
        continue;
      }
      if (auto view = dyn_cast<memref::SubViewOp>(user); view && isPart(view))
        continue;
      if (auto view = dyn_cast<ViewLikeOpInterface>(user)) {
        if (view.getViewSource() == value)
          for (Value result : user->getResults())
            if (isa<BaseMemRefType>(result.getType()))
              follow(result, kind, name);
        continue;
      }
      Value target = copyTarget(user, value);
      auto type = cast<BaseMemRefType>(value.getType());
      if (!target || !type.hasRank() || type.getShape().size() < 2 ||
          !origin(target).getDefiningOp<memref::AllocOp>())
        continue;
      if (isNeeded(user, value, target)) {
        remark::analysis(user->getLoc(), remarkOptions("copy", user))
            << remark::metric("kind", kind) << remark::metric("argument", name);
      } else {
        user->emitError("the whole of ")
            << kind << " '" << name
            << "' is copied; read it in place, or pass it as an input";
        signalPassFailure();
      }
    }
  }

  void runOnOperation() override {
    SymbolTable table(getOperation());
    symbols = &table;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || function->hasAttr(kMayCopyAttr))
        continue;
      unsigned arguments = 0;
      for (BlockArgument arg : function.getArguments()) {
        auto kind = function.getArgAttrOfType<StringAttr>(arg.getArgNumber(),
                                                          kKindAttr);
        if (!kind || (kind != "weight" && kind != "state") ||
            !isa<MemRefType>(arg.getType()))
          continue;
        auto name = function.getArgAttrOfType<StringAttr>(arg.getArgNumber(),
                                                          kNameAttr);
        // A layer function's copy is reported once, for the first argument that
        // reaches it.
        follow(arg, kind, name ? name.getValue() : StringRef("?"));
        ++arguments;
      }
      if (function->hasAttr(kEntryAttr))
        remark::passed(function.getLoc(), remarkOptions("verified", function))
            << remark::metric("arguments", arguments);
    }
    seen.clear();
    markAllAnalysesPreserved();
  }

  SymbolTable *symbols = nullptr;
  DenseSet<Value> seen;
};
} // namespace
