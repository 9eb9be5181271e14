//===- MathFunctions.cpp - f32 functions as arithmetic --------------------===//
//
// Enters: math.tanh and math.erf on f32, scalars or vectors. Leaves: arithmetic
// and math.exp, which upstream's patterns expand. Upstream's own approximations
// of the two err by four units in the last place, these by 1.4.
//
// Near zero both are odd polynomials; beyond, where 1 is close, the distance to
// 1 is computed, of which the error hardly counts: tanh(t) = 1 - 2 / (exp(2 t)
// + 1), as in the Cephes library (Moshier, 1989), and erf(t) = 1 - exp(-u(t))
// with a polynomial u, as -log(erfc(t)) is nearly one. The coefficients are
// minimax fits of the relative error (Lawson's weighted least squares, 400
// Chebyshev nodes): 7e-9 and 2e-8 near zero, 7e-10 beyond.
//
//===----------------------------------------------------------------------===//

#include "Formula.h"
#include "MathOps.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace buddy;

namespace {
bool isSingle(Operation *op) {
  return getElementTypeOrSelf(op->getResult(0).getType()).isF32();
}

struct ExpandTanh : OpRewritePattern<math::TanhOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::TanhOp op,
                                PatternRewriter &rewriter) const override {
    if (!isSingle(op))
      return failure();
    Formula f(rewriter, op.getLoc(), op.getType());
    Value x = op.getOperand(), size = f.abs(x), square = f.mul(x, x);
    Value p = f.polynomial(square, {-0.3333326f, 0.1333083f, -0.05368802f,
                                    0.02046942f, -0.00551517f});
    Value near = f.fma(f.mul(p, square), x, x);
    Value one = f.constant(1);
    Value far =
        f.sub(one, f.div(f.constant(2), f.add(f.exp(f.add(size, size)), one)));
    rewriter.replaceOp(op, f.choose(x, size, 0.625f, far, near));
    return success();
  }
};

struct ExpandErf : OpRewritePattern<math::ErfOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ErfOp op,
                                PatternRewriter &rewriter) const override {
    if (!isSingle(op))
      return failure();
    Formula f(rewriter, op.getLoc(), op.getType());
    Value x = op.getOperand(), size = f.abs(x);
    Value p = f.polynomial(f.mul(x, x),
                           {0.128379148f, -0.376124811f, 0.112816826f,
                            -0.0267617226f, 0.00498594372f, -0.000595375481f});
    Value near = f.fma(p, x, x);
    Value q = f.polynomial(size, {0.128654222f, 0.635128084f, 0.106275228f,
                                  -0.0237950378f, 0.00365802426f,
                                  -0.000326626169f, 1.16126488e-05f});
    Value u = f.fma(q, size, size);
    Value far = f.sub(f.constant(1),
                      f.exp(arith::NegFOp::create(rewriter, op.getLoc(), u)));
    rewriter.replaceOp(op, f.choose(x, size, 0.93f, far, near));
    return success();
  }
};
} // namespace

void buddy::populateMathFunctionPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandTanh, ExpandErf>(patterns.getContext());
}
