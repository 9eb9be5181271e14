//===- Liveness.h - live ranges of buffers ----------------------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_MEMORY_LIVENESS_H
#define BUDDY_LIB_TRANSFORMS_MEMORY_LIVENESS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace buddy {

/// First and last op, in program order, at which a buffer holds something.
struct LiveRange {
  unsigned begin = 0, end = 0;
  bool overlaps(const LiveRange &other) const {
    return begin <= other.end && other.begin <= end;
  }
};

/// Where an allocated buffer is used, through all its views.
struct BufferUse {
  LiveRange range;
  /// The block at whose end the buffer is dead: that of the allocation, or one
  /// further out that a branch hands it to.
  mlir::Block *scope = nullptr;
  llvm::SmallVector<mlir::memref::DeallocOp> deallocs;
  /// The terminator by which the buffer outlives a loop iteration or the
  /// function, if one does. `range` and `scope` mean nothing then.
  mlir::Operation *escape = nullptr;
};

/// Program order and live ranges of one function. A view is any memref that an
/// op makes from a memref, block arguments included; so calls and control flow
/// are handled without knowing the op.
class BufferLiveness {
public:
  explicit BufferLiveness(mlir::func::FuncOp function);

  BufferUse analyze(mlir::memref::AllocOp alloc) const;
  /// The range of an op with all that is nested in it.
  LiveRange range(mlir::Operation *op) const { return order.lookup(op); }

private:
  llvm::DenseMap<mlir::Operation *, LiveRange> order;
  /// With branches between blocks, order in the text is not order in time.
  bool isStructured = true;
  unsigned last = 0;
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_MEMORY_LIVENESS_H
