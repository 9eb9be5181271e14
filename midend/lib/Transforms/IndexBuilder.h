//===- IndexBuilder.h - arithmetic on index values --------------*- C++ -*-===//
//
// Private to the transforms: the base of the generators.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_INDEXBUILDER_H
#define BUDDY_LIB_TRANSFORMS_INDEXBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace buddy {

/// A builder `b` with arithmetic on sizes and positions. What is known folds to
/// constants; sums and products do not overflow.
class IndexBuilder {
protected:
  using Value = mlir::Value;

  IndexBuilder(mlir::Location loc, mlir::OpBuilder &builder)
      : b(loc, builder) {}
  /// Inserts before `op`.
  explicit IndexBuilder(mlir::Operation *op) : b(op->getLoc(), op) {}

  Value constant(int64_t value) {
    return mlir::arith::ConstantIndexOp::create(b, value);
  }
  Value add(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::AddIOp>(lhs, rhs, kNoOverflow);
  }
  Value sub(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::SubIOp>(lhs, rhs, kNoOverflow);
  }
  Value mul(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::MulIOp>(lhs, rhs, kNoOverflow);
  }
  Value add(Value lhs, int64_t rhs) { return add(lhs, constant(rhs)); }
  Value mul(Value lhs, int64_t rhs) { return mul(lhs, constant(rhs)); }
  Value minimum(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::MinSIOp>(lhs, rhs);
  }
  Value maximum(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::MaxSIOp>(lhs, rhs);
  }
  /// Quotient and rest of numbers that are not negative.
  Value divide(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::DivUIOp>(lhs, rhs);
  }
  Value modulo(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::RemUIOp>(lhs, rhs);
  }
  Value ceilDiv(Value lhs, Value rhs) {
    return divide(add(lhs, sub(rhs, constant(1))), rhs);
  }
  /// To a multiple of `factor`, which is positive.
  Value roundDown(Value value, Value factor) {
    if (mlir::getConstantIntValue(factor) == 1)
      return value;
    return sub(value, modulo(value, factor));
  }
  Value roundUp(Value value, Value factor) {
    return roundDown(add(value, sub(factor, constant(1))), factor);
  }
  Value lessThan(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::slt,
                                               lhs, rhs);
  }
  Value equal(Value lhs, Value rhs) {
    return b.createOrFold<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::eq,
                                               lhs, rhs);
  }

  mlir::ImplicitLocOpBuilder b;

private:
  static constexpr auto kNoOverflow = mlir::arith::IntegerOverflowFlags::nsw;
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_INDEXBUILDER_H
