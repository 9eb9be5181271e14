//===- EntrySizes.h - sizes computed at a function's entry ------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_MEMORY_ENTRYSIZES_H
#define BUDDY_LIB_TRANSFORMS_MEMORY_ENTRYSIZES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"

namespace buddy {

/// Recomputes sizes at the entry of a function from its arguments: their memref
/// dimensions, integers and indices. Equal computations become one value.
class EntrySizes {
public:
  explicit EntrySizes(mlir::func::FuncOp function);

  /// The value of an integer or index at the function's entry, or null if the
  /// arguments do not determine it.
  mlir::Value get(mlir::Value value);
  /// As `get`, or else a value that is never smaller.
  mlir::Value getBound(mlir::Value value);
  /// A dimension of a memref, index, or null.
  mlir::Value getDim(mlir::Value memref, int64_t dim);
  /// The operands of @CALLEE.workspace_size for a call, or nothing.
  std::optional<llvm::SmallVector<mlir::Value>>
  getCallSizes(mlir::func::CallOp call, mlir::func::FuncOp callee);

  /// Inserts an op at the entry, or finds the equal one.
  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    builder.setInsertionPointAfter(last);
    return insert(Op::create(builder, location, std::forward<Args>(args)...));
  }
  mlir::Value constant(int64_t value);

  /// Copies the computation of `values` into `target`, an empty function that
  /// takes the index values of the workspace size convention.
  llvm::SmallVector<mlir::Value> cloneInto(mlir::func::FuncOp target,
                                           mlir::ValueRange values);

private:
  mlir::Value insert(mlir::Operation *op);
  mlir::Value compute(mlir::Value value);
  mlir::Value computeDim(mlir::Value memref, int64_t dim);

  mlir::func::FuncOp function;
  mlir::Location location;
  mlir::OpBuilder builder;
  mlir::Operation *last; ///< Inserted at the entry.
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> dims;
  llvm::DenseMap<size_t, llvm::SmallVector<mlir::Operation *, 1>> known;
};

/// The types of @NAME.workspace_size's arguments: index, one for each dynamic
/// dimension and each integer or index of `arguments`.
unsigned countSizes(mlir::TypeRange arguments);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_MEMORY_ENTRYSIZES_H
