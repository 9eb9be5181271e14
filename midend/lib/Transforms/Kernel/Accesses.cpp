//===- Accesses.cpp - which buffers ops read and write --------------------===//

#include "Accesses.h"

#include "buddy/Transforms/Buffer.h"
#include "buddy/Transforms/Passes.h"

using namespace mlir;
using namespace buddy;

/// True for an op that computes on values alone, though it does not say so: an
/// intrinsic without an address.
static bool isIntrinsicOnValues(Operation *op) {
  return isa<LLVM::CallIntrinsicOp>(op) &&
         llvm::none_of(op->getOperandTypes(), [](Type type) {
           return isa<LLVM::LLVMPointerType>(type);
         });
}

std::optional<Accesses> Accesses::of(Operation *op) {
  Accesses accesses;
  auto touch = [&](Operation *inner) -> LogicalResult {
    auto effects = dyn_cast<MemoryEffectOpInterface>(inner);
    bool isRecursive = inner->hasTrait<OpTrait::HasRecursiveMemoryEffects>();
    if (isa<CheckOp>(inner) || isIntrinsicOnValues(inner))
      return success();
    if (!effects)
      return success(isRecursive);
    SmallVector<MemoryEffects::EffectInstance> instances;
    effects.getEffects(instances);
    for (const MemoryEffects::EffectInstance &effect : instances) {
      if (isa<MemoryEffects::Allocate>(effect.getEffect()))
        continue;
      Value buffer;
      if (Value value = effect.getValue();
          value && isa<BaseMemRefType>(value.getType()))
        buffer = getBuffer(value);
      if (Operation *def = buffer ? buffer.getDefiningOp() : nullptr;
          def && op->isProperAncestor(def))
        continue;
      bool isRead = isa<MemoryEffects::Read>(effect.getEffect());
      (isRead ? accesses.reads : accesses.writes).insert(buffer);
    }
    return success();
  };
  WalkResult result = op->walk([&](Operation *inner) {
    return failed(touch(inner)) ? WalkResult::interrupt()
                                : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return std::nullopt;
  return accesses;
}

void Accesses::add(const Accesses &other) {
  reads.insert_range(other.reads);
  writes.insert_range(other.writes);
}

bool Accesses::conflictsWith(const Accesses &other) const {
  auto destroys = [](const Accesses &one, const Accesses &two) {
    return llvm::any_of(one.writes, [&](Value buffer) {
      if (!buffer)
        return !two.reads.empty() || !two.writes.empty();
      return two.reads.contains(buffer) || two.writes.contains(buffer) ||
             two.reads.contains(Value()) || two.writes.contains(Value());
    });
  };
  return destroys(*this, other) || destroys(other, *this);
}
