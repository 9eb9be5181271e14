//===- Workspace.h - how functions take their workspace ---------*- C++ -*-===//
//
// Set by buddy-plan-memory, read by buddy-emit-entries.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_TRANSFORMS_WORKSPACE_H
#define BUDDY_TRANSFORMS_WORKSPACE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace buddy {

/// Unit attribute of a function's workspace argument, memref<?xi8>, its last.
inline constexpr llvm::StringLiteral kWorkspaceAttr = "buddy.workspace";

/// `@NAME.workspace_size` returns the bytes (index) that @NAME needs. It takes
/// index values: for each argument of @NAME before the workspace, in order, a
/// memref's dynamic sizes, or the value of an integer or index.
inline constexpr llvm::StringLiteral kWorkspaceSizeSuffix = ".workspace_size";

/// Alignment in bytes of a workspace and of each buffer in it.
inline constexpr int64_t kWorkspaceAlignment = 64;

} // namespace buddy

#endif // BUDDY_TRANSFORMS_WORKSPACE_H
