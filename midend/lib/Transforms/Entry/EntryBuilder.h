//===- EntryBuilder.h - one exported entry point ----------------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_ENTRY_ENTRYBUILDER_H
#define BUDDY_LIB_TRANSFORMS_ENTRY_ENTRYBUILDER_H

#include "Messages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace buddy {

/// `body` is a function with `buddy.entry` that takes the call's context first.
/// Renames it to NAME.body and emits the exported NAME and NAME_workspace_size
/// before it. `setBlockTime`: tell libomp how long idle workers may spin.
mlir::LogicalResult emitEntry(mlir::func::FuncOp body, MessageEmitter &messages,
                              bool setBlockTime);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_ENTRY_ENTRYBUILDER_H
