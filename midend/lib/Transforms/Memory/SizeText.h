//===- SizeText.h - sizes for people to read --------------------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_MEMORY_SIZETEXT_H
#define BUDDY_LIB_TRANSFORMS_MEMORY_SIZETEXT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace buddy {

/// What an unknown size is taken for where sizes have to be compared or drawn.
inline constexpr int64_t kAssumedSize = 128;

/// Reads sizes that EntrySizes computed at a function's entry.
class SizeText {
public:
  /// `workspaces`: the estimates of functions whose workspaces may be asked
  /// for.
  SizeText(mlir::func::FuncOp function,
           const llvm::StringMap<int64_t> &workspaces)
      : function(function), workspaces(workspaces) {}

  /// The size as an expression of the arguments' symbols (`buddy.shape`), or,
  /// where they have none, of "arg0.1", dimension 1 of argument 0. What would
  /// be long is only "f(arg0.1, …)".
  std::string text(mlir::Value size) { return read(size).text; }
  /// The same, in parentheses where it needs them in a product.
  std::string factor(mlir::Value size) {
    const Reading &reading = read(size);
    return reading.atom ? reading.text : "(" + reading.text + ")";
  }
  /// Its value if each dimension and argument is kAssumedSize.
  int64_t estimate(mlir::Value size) { return read(size).estimate; }

private:
  struct Reading {
    std::string text;
    int64_t estimate;
    bool atom; ///< Needs no parentheses inside an expression.
    llvm::SetVector<llvm::StringRef> symbols = {}; ///< In the text.
  };
  const Reading &read(mlir::Value size);
  Reading compute(mlir::Value size);
  Reading expression(mlir::Operation *op);
  Reading symbol(const llvm::Twine &name);
  Reading argument(mlir::BlockArgument argument);
  Reading dimension(mlir::Value memref, int64_t dim);

  mlir::func::FuncOp function;
  const llvm::StringMap<int64_t> &workspaces;
  llvm::DenseMap<mlir::Value, Reading> known;
  llvm::StringSet<> names; ///< Of all symbols.
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_MEMORY_SIZETEXT_H
