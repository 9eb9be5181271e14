//===- EntryBuilder.h - one exported entry point ----------------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_ENTRY_ENTRYBUILDER_H
#define BUDDY_LIB_TRANSFORMS_ENTRY_ENTRYBUILDER_H

#include "Messages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace buddy {

/// What the code behind an entry needs from the process before it runs.
struct EntryNeeds {
  bool blockTime = false; ///< libomp told how long idle workers may spin.
  bool tiles = false;     ///< Permission to use AMX's tile registers.
};

/// `body` is a function with `buddy.entry` that takes the call's context first.
/// Renames it to NAME.body and emits the exported NAME and NAME_workspace_size
/// before it.
mlir::LogicalResult emitEntry(mlir::func::FuncOp body, MessageEmitter &messages,
                              const EntryNeeds &needs);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_ENTRY_ENTRYBUILDER_H
