//===- QuantizedEmitter.h - code for quantised ops ------------------------===//
//
// Private to this folder:
//   LowerQuantized.cpp   the pass, rows and single elements
//   QuantizedMatmul.cpp  products of quantised rows
//   Dequantize.cpp       products of floats
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_CONTRACTION_QUANTIZEDEMITTER_H
#define BUDDY_LIB_TRANSFORMS_CONTRACTION_QUANTIZEDEMITTER_H

#include "../IndexBuilder.h"
#include "buddy/Target/TargetInfo.h"
#include "buddy/Transforms/Passes.h"

namespace buddy {

/// What the lowerings of quantised ops share.
class QuantizedEmitter : protected IndexBuilder {
protected:
  using Values = mlir::SmallVector<Value>;

  QuantizedEmitter(mlir::Operation *op, const TargetInfo &target)
      : IndexBuilder(op), target(target) {}

  Value size(Value memref, int64_t dim) {
    return b.createOrFold<mlir::memref::DimOp>(memref, dim);
  }
  Value integer(int64_t value, mlir::Type type) {
    return mlir::arith::ConstantOp::create(b, integerAttr(value, type));
  }
  mlir::TypedAttr integerAttr(int64_t value, mlir::Type type) {
    auto element = b.getIntegerAttr(mlir::getElementTypeOrSelf(type), value);
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return mlir::DenseElementsAttr::get(vector, element);
    return element;
  }
  Value real(double value, mlir::Type type) {
    auto element = b.getFloatAttr(mlir::getElementTypeOrSelf(type), value);
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return mlir::arith::ConstantOp::create(
          b, mlir::DenseElementsAttr::get(vector, element));
    return mlir::arith::ConstantOp::create(b, element);
  }
  Value broadcast(Value scalar, int64_t lanes) {
    return mlir::vector::BroadcastOp::create(
        b, mlir::VectorType::get({lanes}, scalar.getType()), scalar);
  }
  Values loop(Value lower, Value upper, int64_t step, mlir::ValueRange init,
              llvm::function_ref<Values(Value, mlir::ValueRange)> body) {
    auto loop = mlir::scf::ForOp::create(
        b, lower, upper, constant(step), init,
        [&](mlir::OpBuilder &, mlir::Location, Value iv,
            mlir::ValueRange carried) {
          mlir::scf::YieldOp::create(b, body(iv, carried));
        });
    return llvm::to_vector(mlir::ValueRange(loop.getResults()));
  }
  /// Bytes of a memref from `at` on, as a vector of another element type.
  Value loadBytes(Value memref, mlir::ValueRange at, int64_t lanes,
                  mlir::Type element) {
    int64_t bytes = lanes * element.getIntOrFloatBitWidth() / 8;
    Value raw = mlir::vector::LoadOp::create(
        b, mlir::VectorType::get({bytes}, b.getI8Type()), memref, at);
    return mlir::vector::BitCastOp::create(
        b, mlir::VectorType::get({lanes}, element), raw);
  }
  Value widen(Value value) {
    mlir::Type f32 = b.getF32Type();
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(value.getType()))
      f32 = vector.clone(f32);
    return value.getType() == f32 ? value
                                  : mlir::arith::ExtFOp::create(b, f32, value);
  }

  const TargetInfo &target;
};

/// Emits loops and vector code for the product before it; the op stays.
void emitQuantizedMatmul(QuantizedMatmulOp op, ScheduleAttr schedule,
                         const TargetInfo &target);

/// Replaces a product of floats by a quantised weight by loops and contractions
/// before it; the op stays.
void emitDequantizedMatmul(DequantizedMatmulOp op, const TargetInfo &target);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_CONTRACTION_QUANTIZEDEMITTER_H
