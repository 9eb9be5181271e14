//===- Messages.h - error texts of emitted code -----------------*- C++ -*-===//
//
// Emitted code reports errors through internal functions of its own module, so
// that it needs no formatting from the C library.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_ENTRY_MESSAGES_H
#define BUDDY_LIB_TRANSFORMS_ENTRY_MESSAGES_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace buddy {

/// One error: `texts[0] values[0] texts[1] values[1] texts[2]`, cut after the
/// last text that is given.
struct Message {
  llvm::SmallVector<std::string, 3> texts;
  llvm::SmallVector<mlir::Value, 2> values; ///< i64.
};

/// The message functions and the constant texts of one module.
class MessageEmitter {
public:
  explicit MessageEmitter(mlir::ModuleOp module);

  /// Records `text` with BUDDY_E_CHECK if `ok` (i1) is false and no error is
  /// recorded yet. One op, valid in any region and on any thread.
  void emitCheck(mlir::OpBuilder &builder, mlir::Location loc,
                 mlir::Value context, mlir::Value ok, llvm::StringRef text);

  /// The operands of the fail function after the context and the code: three
  /// texts (null where there is none) around two numbers.
  llvm::SmallVector<mlir::Value> emitPieces(mlir::OpBuilder &builder,
                                            mlir::Location loc,
                                            const Message &message);
  /// Writes the code and the message of these pieces to the context.
  void emitFail(mlir::OpBuilder &builder, mlir::Location loc,
                mlir::Value context, mlir::Value code, mlir::ValueRange pieces);

private:
  mlir::Value text(mlir::OpBuilder &builder, mlir::Location loc,
                   llvm::StringRef text);

  mlir::ModuleOp module;
  llvm::StringMap<mlir::LLVM::GlobalOp> texts;
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_ENTRY_MESSAGES_H
