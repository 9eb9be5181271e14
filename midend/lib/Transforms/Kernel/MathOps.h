//===- MathOps.h - what becomes of a math op --------------------*- C++ -*-===//
//
// One list for the passes that choose between vectors and elements and that
// expand functions: what neither is an instruction nor has a polynomial is a
// call for each element.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_KERNEL_MATHOPS_H
#define BUDDY_KERNEL_MATHOPS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace buddy {

/// Patterns that make arithmetic of tanh and erf on f32.
void populateMathFunctionPatterns(mlir::RewritePatternSet &patterns);

/// Patterns that make arithmetic of f64 of what `isWideFunction` on f32.
void populateWideFunctionPatterns(mlir::RewritePatternSet &patterns);

/// Patterns that make arithmetic of what `isDoubleFunction` on f64.
void populateDoubleFunctionPatterns(mlir::RewritePatternSet &patterns);

/// An op that stays a call: of the C library, for angles that are too large.
inline constexpr llvm::StringLiteral kMathCall = "buddy.call";

/// Instructions of every target, or a few of them, on vectors too.
inline bool isMathInstruction(mlir::Operation *op) {
  return mlir::isa<mlir::math::AbsFOp, mlir::math::SqrtOp, mlir::math::RsqrtOp,
                   mlir::math::FloorOp, mlir::math::CeilOp, mlir::math::TruncOp,
                   mlir::math::RoundEvenOp, mlir::math::CopySignOp,
                   mlir::math::FmaOp, mlir::math::AbsIOp>(op);
}

/// Functions of f32 that are expanded in f32, within a few units in the last
/// place over the whole range, by the op's name.
inline bool hasPolynomial(llvm::StringRef name) {
  return llvm::is_contained({"math.exp", "math.tanh", "math.erf"}, name);
}

/// Functions of f32 that are expanded in f64, by the op's name.
inline bool isWideFunction(llvm::StringRef name) {
  return llvm::is_contained({"math.sin", "math.cos", "math.tan", "math.atan",
                             "math.atan2", "math.asin", "math.acos",
                             "math.sinh", "math.cosh", "math.exp2",
                             "math.expm1", "math.log", "math.log1p",
                             "math.log2", "math.log10", "math.powf"},
                            name);
}

/// Functions of f32 that are expanded, by the op's name.
inline bool isExpanded(llvm::StringRef name) {
  return hasPolynomial(name) || isWideFunction(name);
}

/// Functions of f64 that are expanded, by the op's name.
inline bool isDoubleFunction(llvm::StringRef name) {
  return llvm::is_contained({"math.exp", "math.log"}, name);
}

/// True for a floating-point op that the C math library computes, an element
/// at a time, once expandable functions are expanded.
inline bool isMathCall(mlir::Operation *op) {
  if (mlir::isa<mlir::arith::RemFOp>(op))
    return true;
  return mlir::isa_and_nonnull<mlir::math::MathDialect>(op->getDialect()) &&
         mlir::isa<mlir::FloatType>(
             mlir::getElementTypeOrSelf(op->getResult(0).getType())) &&
         !isMathInstruction(op);
}

} // namespace buddy

#endif // BUDDY_KERNEL_MATHOPS_H
