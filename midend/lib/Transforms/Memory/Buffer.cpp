//===- Buffer.cpp - what memory a memref is -------------------------------===//

#include "buddy/Transforms/Buffer.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;

Value buddy::getBuffer(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  if (auto argument = dyn_cast<BlockArgument>(memref))
    return isa<FunctionOpInterface>(argument.getOwner()->getParentOp()) &&
                   argument.getOwner()->isEntryBlock()
               ? memref
               : Value();
  Operation *op = memref.getDefiningOp();
  return isa_and_nonnull<memref::AllocOp, memref::AllocaOp,
                         memref::GetGlobalOp>(op)
             ? memref
             : Value();
}
