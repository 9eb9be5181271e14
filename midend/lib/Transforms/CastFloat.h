//===- CastFloat.h - from one float type to another -------------*- C++ -*-===//
//
// Private to the transforms.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_CASTFLOAT_H
#define BUDDY_LIB_TRANSFORMS_CASTFLOAT_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace buddy {

/// Extends a float to a wider type, or rounds it to a narrower one.
inline mlir::Value castFloat(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, mlir::Type type) {
  if (value.getType() == type)
    return value;
  if (value.getType().getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return mlir::arith::ExtFOp::create(builder, loc, type, value);
  return mlir::arith::TruncFOp::create(builder, loc, type, value);
}

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_CASTFLOAT_H
