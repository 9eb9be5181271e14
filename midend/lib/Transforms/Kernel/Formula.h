//===- Formula.h - arithmetic of one type -----------------------*- C++ -*-===//
//
// What expansions of functions build with: floating-point numbers of one type,
// scalars or vectors of f32 or of f64, rounded as written.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_KERNEL_FORMULA_H
#define BUDDY_KERNEL_FORMULA_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

namespace buddy {

/// Builds arithmetic of one type.
class Formula {
protected:
  using Value = mlir::Value;

public:
  Formula(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type)
      : b(builder), loc(loc), type(type) {}

  Value constant(double value) {
    return splat(b.getFloatAttr(getElementTypeOrSelf(type), value), type);
  }
  Value mul(Value x, Value y) { return make<mlir::arith::MulFOp>(x, y); }
  Value add(Value x, Value y) { return make<mlir::arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return make<mlir::arith::SubFOp>(x, y); }
  Value div(Value x, Value y) { return make<mlir::arith::DivFOp>(x, y); }
  Value neg(Value x) { return make<mlir::arith::NegFOp>(x); }
  Value abs(Value x) { return make<mlir::math::AbsFOp>(x); }
  Value sqrt(Value x) { return make<mlir::math::SqrtOp>(x); }
  Value floor(Value x) { return make<mlir::math::FloorOp>(x); }
  Value exp(Value x) { return make<mlir::math::ExpOp>(x); }
  Value fma(Value x, Value y, Value z) {
    return make<mlir::math::FmaOp>(x, y, z);
  }
  Value withSign(Value size, Value sign) {
    return make<mlir::math::CopySignOp>(size, sign);
  }
  /// c0 + c1 x + c2 x² …
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients) {
    Value sum = constant(coefficients.back());
    for (double c : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, constant(c));
    return sum;
  }

  /// Comparisons are false where one side is NaN.
  Value less(Value x, Value y) {
    return make<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OLT, x, y);
  }
  Value equal(Value x, Value y) {
    return make<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OEQ, x, y);
  }
  Value both(Value p, Value q) { return make<mlir::arith::AndIOp>(p, q); }
  Value either(Value p, Value q) { return make<mlir::arith::OrIOp>(p, q); }
  Value select(Value condition, Value x, Value y) {
    return make<mlir::arith::SelectOp>(condition, x, y);
  }
  /// `far` with the sign of x where |x|, `size`, is above `limit`, else `near`.
  Value choose(Value x, Value size, double limit, Value far, Value near) {
    return select(less(constant(limit), size), withSign(far, x), near);
  }

protected:
  template <class Op, class... Arguments> Value make(Arguments &&...arguments) {
    return Op::create(b, loc, std::forward<Arguments>(arguments)...);
  }
  Value splat(mlir::TypedAttr value, mlir::Type as) {
    if (auto vector = mlir::dyn_cast<mlir::ShapedType>(as))
      value = mlir::DenseElementsAttr::get(vector,
                                           mlir::cast<mlir::Attribute>(value));
    return make<mlir::arith::ConstantOp>(value);
  }

  /// The integers that hold the numbers' bits.
  mlir::Type bitsType() {
    mlir::Type element =
        b.getIntegerType(getElementTypeOrSelf(type).getIntOrFloatBitWidth());
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return vector.clone(element);
    return element;
  }
  Value toBits(Value x) { return make<mlir::arith::BitcastOp>(bitsType(), x); }
  Value fromBits(Value x) { return make<mlir::arith::BitcastOp>(type, x); }
  Value integer(int64_t value) {
    mlir::Type bits = bitsType();
    return splat(b.getIntegerAttr(getElementTypeOrSelf(bits), value), bits);
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;
};

} // namespace buddy

#endif // BUDDY_KERNEL_FORMULA_H
