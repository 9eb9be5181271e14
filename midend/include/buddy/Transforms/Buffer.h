//===- Buffer.h - what memory a memref is ------------------------*- C++
//-*-===//

#ifndef BUDDY_TRANSFORMS_BUFFER_H
#define BUDDY_TRANSFORMS_BUFFER_H

#include "mlir/IR/Value.h"

namespace buddy {

/// The buffer that a memref is a view of: an argument of the function, an
/// allocation or a global; null if it is not known. Two different ones share no
/// memory where either is written: arguments are `restrict` at an entry, and
/// bufferization keeps to it in calls.
mlir::Value getBuffer(mlir::Value memref);

} // namespace buddy

#endif // BUDDY_TRANSFORMS_BUFFER_H
