//===- AssignSlots.h - which buffers share space ----------------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_MEMORY_ASSIGNSLOTS_H
#define BUDDY_LIB_TRANSFORMS_MEMORY_ASSIGNSLOTS_H

#include "Liveness.h"
#include "llvm/ADT/ArrayRef.h"

namespace buddy {

/// A buffer to be placed. Its size in bytes is `factor` times the product that
/// `key` stands for; only sizes of one key can be compared at compile time.
struct PlacedBuffer {
  LiveRange range;
  int64_t factor;
  unsigned key;
  /// Guess at the size, to decide by. Correctness does not depend on it.
  int64_t estimate;
};

/// Gives each buffer a slot such that buffers of one slot never live at once,
/// few and small slots first: greedy by size (Pisarchyk and Lee, "Efficient
/// Memory Management for Deep Neural Net Inference", 2020). Deterministic.
/// Returns the slot of each buffer, numbered from 0.
llvm::SmallVector<unsigned> assignSlots(llvm::ArrayRef<PlacedBuffer> buffers);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_MEMORY_ASSIGNSLOTS_H
