//===- ShapeExpression.h - symbolic sizes in `buddy.shape` ------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_ENTRY_SHAPEEXPRESSION_H
#define BUDDY_LIB_TRANSFORMS_ENTRY_SHAPEEXPRESSION_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace buddy {

/// True if the text is one symbol (`s0`), not a number or an expression.
bool isSymbol(llvm::StringRef text);

/// Emits i64 arithmetic for sums, differences, products and floor divisions by
/// positive constants, with parentheses, over integers and the given symbols.
/// Null if the text holds anything else: such a size is not checked.
mlir::Value emitShapeExpression(mlir::OpBuilder &builder, mlir::Location loc,
                                llvm::StringRef text,
                                const llvm::StringMap<mlir::Value> &symbols);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_ENTRY_SHAPEEXPRESSION_H
