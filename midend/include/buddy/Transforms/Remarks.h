//===- Remarks.h - what passes tell about their decisions -------*- C++ -*-===//
//
// Passes tell by MLIR's remark engine what they could not do and where things
// ended up; nothing is built unless somebody listens. `buddy explain` does, and
//
//   buddy-opt --remarks-filter=buddy --remark-format=emitRemark …
//
// prints the same. Names of remarks, and the keys of their values:
//
//   scalar-loop  missed    a loop over floats without vectors: reason, body
//   math-call    missed    a function of the C math library in a loop: function
//   arena        analysis  a function's part of the workspace: estimate (bytes,
//                          an unknown size taken for 128), end (the function's
//                          last moment, on the scale of its buffers')
//   buffer       analysis  one buffer in it: bytes (an expression), estimate,
//                          slot (buffers of one share space), offset (an
//                          estimate), begin and end (when it holds something),
//                          type, callee (of a workspace that is handed on)
//   stack        analysis  a buffer on the stack: bytes, threads (true if each
//                          thread of a parallel region has one)
//   heap         missed    a buffer allocated in each call: type, reason
//   copy         analysis  a weight or state copied whole, since its old value
//                          is needed: kind, argument
//   verified     passed    no other weight or state of the entry is copied:
//                          arguments (how many those are)
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_TRANSFORMS_REMARKS_H
#define BUDDY_TRANSFORMS_REMARKS_H

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace buddy {

inline constexpr llvm::StringLiteral kRemarkCategory = "buddy";

/// Options of a remark about something in the function that holds `op`. `name`
/// must outlive the remark.
inline mlir::remark::RemarkOpts remarkOptions(llvm::StringRef name,
                                              mlir::Operation *op) {
  auto function = mlir::dyn_cast<mlir::FunctionOpInterface>(op);
  if (!function)
    function = op->getParentOfType<mlir::FunctionOpInterface>();
  return mlir::remark::RemarkOpts::name(name)
      .category(kRemarkCategory)
      .function(function ? function.getName() : llvm::StringRef());
}

} // namespace buddy

#endif // BUDDY_TRANSFORMS_REMARKS_H
