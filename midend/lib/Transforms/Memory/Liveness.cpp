//===- Liveness.cpp - live ranges of buffers ------------------------------===//

#include "Liveness.h"

#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace buddy;

BufferLiveness::BufferLiveness(func::FuncOp function) {
  auto number = [&](auto &self, Operation *op) -> void {
    unsigned begin = last++;
    for (Region &region : op->getRegions()) {
      isStructured &= region.empty() || region.hasOneBlock();
      for (Operation &inner : region.getOps())
        self(self, &inner);
    }
    order[op] = {begin, last++};
  };
  number(number, function);
}

/// True for ops that hand out a pointer that is no memref any more.
static bool leavesMemRefs(Operation *op) {
  return isa<memref::ExtractAlignedPointerAsIndexOp,
             UnrealizedConversionCastOp>(op);
}

BufferUse BufferLiveness::analyze(memref::AllocOp alloc) const {
  BufferUse use;
  use.scope = alloc->getBlock();
  SmallVector<Value> worklist{alloc.getResult()};
  llvm::SmallPtrSet<Value, 16> seen{alloc.getResult()};
  auto addViews = [&](ValueRange values) {
    for (Value v : values)
      if (isa<BaseMemRefType>(v.getType()) && seen.insert(v).second)
        worklist.push_back(v);
  };
  SmallVector<Operation *> users;
  bool untilEnd = !isStructured;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (OpOperand &operand : value.getUses()) {
      Operation *user = operand.getOwner();
      if (auto dealloc = dyn_cast<memref::DeallocOp>(user)) {
        use.deallocs.push_back(dealloc);
        continue;
      }
      if (!isa<ViewLikeOpInterface>(user))
        users.push_back(user);
      untilEnd |= leavesMemRefs(user);
      addViews(user->getResults());
      for (Region &region : user->getRegions())
        for (Block &block : region)
          addViews(block.getArguments());
      if (!user->hasTrait<OpTrait::IsTerminator>())
        continue;
      Operation *parent = user->getParentOp();
      bool definedInside = parent->isProperAncestor(alloc);
      bool repeats = isa<LoopLikeOpInterface>(parent);
      if (isa<func::FuncOp>(parent) || (definedInside && repeats)) {
        use.escape = user;
        return use;
      }
      // Another block of the same region.
      for (Block *successor : user->getSuccessors())
        addViews(successor->getArguments());
      // What the op with the region makes of it.
      if (parent->getNumResults() == user->getNumOperands())
        addViews(parent->getResult(operand.getOperandNumber()));
      else
        addViews(parent->getResults());
      if (repeats)
        for (Region &region : parent->getRegions())
          for (Block &block : region)
            addViews(block.getArguments());
      bool hasViews = llvm::any_of(parent->getResults(), [](Value v) {
        return isa<BaseMemRefType>(v.getType());
      });
      if (definedInside && hasViews &&
          parent->isAncestor(use.scope->getParentOp()))
        use.scope = parent->getBlock();
    }
  }
  bool first = true;
  for (Operation *user : users) {
    Operation *ancestor = use.scope->findAncestorOpInBlock(*user);
    LiveRange range = this->range(ancestor ? ancestor : user);
    use.range.begin =
        first ? range.begin : std::min(use.range.begin, range.begin);
    use.range.end = first ? range.end : std::max(use.range.end, range.end);
    first = false;
  }
  if (first)
    use.range = range(alloc);
  if (untilEnd) {
    Operation *owner = isStructured ? use.scope->getParentOp()
                                    : alloc->getParentOfType<func::FuncOp>();
    use.range.end = range(owner).end;
    if (!isStructured)
      use.range.begin = 0;
  }
  return use;
}
