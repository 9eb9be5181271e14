//===- Epilogue.h - the element-wise op after a contraction ---------------===//
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_CONTRACTION_EPILOGUE_H
#define BUDDY_LIB_TRANSFORMS_CONTRACTION_EPILOGUE_H

#include "Contraction.h"

namespace buddy {

/// An element-wise op that alone reads what a contraction has computed (a bias,
/// an activation, a residual, a cast, a gate): it is applied to each task's
/// results while they are in a buffer of the thread or in the cache. C is
/// undefined afterwards, unless the op writes there.
struct Epilogue {
  mlir::linalg::GenericOp op;
  /// The op's operand number of the contraction's result: an input, or the
  /// output if the op updates it in place.
  unsigned sum = 0;
  /// Dimension of the contraction that each dimension of the op is.
  llvm::SmallVector<unsigned> dims;

  /// Nothing if there is no such op, or none that can be computed a part at a
  /// time where it stands. The contraction has to move there: nothing in
  /// between touches what it reads and writes.
  static std::optional<Epilogue> find(const Contraction &c);
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_CONTRACTION_EPILOGUE_H
