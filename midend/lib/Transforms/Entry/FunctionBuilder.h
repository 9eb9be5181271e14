//===- FunctionBuilder.h - one function of an entry point -------*- C++ -*-===//

#ifndef BUDDY_LIB_TRANSFORMS_ENTRY_FUNCTIONBUILDER_H
#define BUDDY_LIB_TRANSFORMS_ENTRY_FUNCTIONBUILDER_H

#include "Messages.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <optional>

namespace buddy {

/// An argument of the body, after the context.
struct Argument {
  std::string name;
  mlir::Type type;         ///< Of the body's argument.
  mlir::MemRefType memref; ///< Null for a scalar.
  llvm::SmallVector<llvm::StringRef> shape;
  std::optional<int64_t> weightOffset; ///< Bound to the context's weights.
  bool isWorkspace = false;
};

/// Builds one function of the entry; the insertion point is always where the
/// next op goes, behind the checks made so far.
class FunctionBuilder {
public:
  FunctionBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                  MessageEmitter &messages, llvm::ArrayRef<Argument> arguments,
                  llvm::StringRef name, mlir::Type result, bool exported);

  mlir::Value constant(mlir::Type type, int64_t value) {
    return mlir::arith::ConstantIntOp::create(builder, loc, type, value);
  }
  mlir::Value i64(int64_t value) {
    return constant(builder.getI64Type(), value);
  }
  mlir::Value i32(int64_t value) {
    return constant(builder.getI32Type(), value);
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a,
                      mlir::Value b) {
    return mlir::arith::CmpIOp::create(builder, loc, predicate, a, b);
  }
  mlir::Value address(mlir::Value base, int64_t bytes) {
    return mlir::LLVM::GEPOp::create(
        builder, loc, base.getType(), builder.getI8Type(), base,
        llvm::ArrayRef<mlir::LLVM::GEPArg>{int32_t(bytes)});
  }
  mlir::Value load(mlir::Value base, int64_t bytes, mlir::Type type) {
    return mlir::LLVM::LoadOp::create(builder, loc, type, address(base, bytes));
  }
  void store(mlir::Value value, mlir::Value base, int64_t bytes) {
    mlir::LLVM::StoreOp::create(builder, loc, value, address(base, bytes));
  }
  mlir::Value null() {
    return mlir::LLVM::ZeroOp::create(builder, loc, context.getType());
  }
  mlir::Value isNotNull(mlir::Value pointer) {
    return mlir::LLVM::ICmpOp::create(
        builder, loc, mlir::LLVM::ICmpPredicate::ne, pointer, null());
  }

  /// Fields of the descriptor of argument `i`: MLIR's {base, aligned, offset,
  /// sizes[], strides[]}.
  mlir::Value base(unsigned i) { return load(values[i], 0, context.getType()); }
  mlir::Value data(unsigned i) { return load(values[i], 8, context.getType()); }
  mlir::Value offset(unsigned i) {
    return load(values[i], 16, builder.getI64Type());
  }
  mlir::Value size(unsigned i, unsigned dim) {
    return load(values[i], 24 + 8 * dim, builder.getI64Type());
  }
  mlir::Value stride(unsigned i, unsigned dim) {
    return load(values[i], 24 + 8 * (rank(i) + dim), builder.getI64Type());
  }
  unsigned rank(unsigned i) { return arguments[i].memref.getRank(); }

  /// Fails with the message unless `ok`.
  void require(mlir::Value ok, int32_t code, const Message &message);
  /// Goes on if `ok`, else returns `result` without touching the context.
  void returnUnless(mlir::Value ok, mlir::Value result);
  void finish(mlir::Value result);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  MessageEmitter &messages;
  llvm::ArrayRef<Argument> arguments;
  mlir::func::FuncOp function;
  mlir::Value context;
  /// By argument: a pointer to the descriptor or the scalar; null if bound.
  llvm::SmallVector<mlir::Value> values;
  /// As the exported function takes them.
  llvm::SmallVector<mlir::Value> operands;

private:
  mlir::Block *nextBlock() {
    return builder.createBlock(&function.getBody(), function.getBody().end());
  }
  mlir::Block *failure = nullptr;
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_ENTRY_FUNCTIONBUILDER_H
