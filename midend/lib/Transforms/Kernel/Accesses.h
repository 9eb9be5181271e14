//===- Accesses.h - which buffers ops read and write ------------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_KERNEL_ACCESSES_H
#define BUDDY_LIB_TRANSFORMS_KERNEL_ACCESSES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SetVector.h"
#include <optional>

namespace buddy {

/// The buffers that ops touch (see getBuffer), those apart that they allocate
/// themselves; null stands for memory of unknown origin.
struct Accesses {
  llvm::SetVector<mlir::Value> reads, writes;

  /// What an op with all that is nested in it touches; nothing if it has
  /// effects that are not known. A check counts for none: it only records a
  /// message, from whichever thread.
  static std::optional<Accesses> of(mlir::Operation *op);

  void add(const Accesses &other);
  /// One of the two may write what the other touches.
  bool conflictsWith(const Accesses &other) const;
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_KERNEL_ACCESSES_H
