//===- MathFunctions.cpp - f32 functions as arithmetic --------------------===//
//
// Enters: math.tanh, math.erf and 1 + erf on f32, scalars or vectors. Leaves:
// arithmetic and math.exp, which upstream's patterns expand. Upstream's own
// approximations of the two err by four units in the last place, these by 1.4.
//
// Near zero both are odd polynomials; beyond, where 1 is close, the distance to
// 1 is computed, of which the error hardly counts: tanh(t) = 1 - 2 / (exp(2 t)
// + 1), as in the Cephes library (Moshier, 1989), and erf(t) = 1 - 2^-v(t) with
// a polynomial v, as -log(erfc(t)) is nearly one. The coefficients are minimax
// fits of the relative error (Lawson's weighted least squares, 400 Chebyshev
// nodes): 7e-9 and 2e-8 near zero, 7e-10 beyond.
//
//===----------------------------------------------------------------------===//

#include "Formula.h"
#include "MathOps.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace buddy;

namespace {
bool isSingle(Operation *op) {
  return getElementTypeOrSelf(op->getResult(0).getType()).isF32();
}

/// Arithmetic of f32.
class SingleFormula : public Formula {
public:
  using Formula::Formula;

  Value min(Value x, double limit) {
    return make<arith::MinimumFOp>(x, constant(limit));
  }
  /// 2^-v of v from 0 to 126; the fit errs by 9e-8.
  Value powerOfHalf(Value v) {
    // The sum's last bits are the integer next to v.
    Value magic = constant(0x1.8p23);
    Value shifted = add(v, magic);
    Value f = sub(v, sub(shifted, magic));
    Value p = polynomial(f, {1, -0.693146978f, 0.240222421f, -0.0555073374f,
                             0.00967151265f, -0.00132647271f});
    Value exponent = make<arith::ShLIOp>(toBits(shifted), integer(23));
    // Multiplied, which keeps NaN.
    Value scale = make<arith::SubIOp>(toBits(constant(1)), exponent);
    return mul(p, fromBits(scale));
  }
};

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
    Value near = f.fma(f.mul(p, square), size, size);
    Value one = f.constant(1);
    Value far =
        f.sub(one, f.div(f.constant(2), f.add(f.exp(f.add(size, size)), one)));
    // The sign last: that of -0 too.
    Value result = f.select(f.less(f.constant(0.625f), size), far, near);
    rewriter.replaceOp(op, f.withSign(result, x));
    return success();
  }
};

struct ExpandErf : OpRewritePattern<math::ErfOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ErfOp op,
                                PatternRewriter &rewriter) const override {
    if (!isSingle(op))
      return failure();
    SingleFormula f(rewriter, op.getLoc(), op.getType());
    Value x = op.getOperand(), size = f.abs(x);
    Value p = f.polynomial(f.mul(x, x),
                           {0.128379148f, -0.376124811f, 0.112816826f,
                            -0.0267617226f, 0.00498594372f, -0.000595375481f});
    Value near = f.fma(p, x, x);
    // From 4 on the result is 1.
    Value most = f.min(size, 4);
    Value v =
        f.mul(most, f.polynomial(most, {1.62830385f, 0.916296137f, 0.153322744f,
                                        -0.034328983f, 0.00527741346f,
                                        -0.000471221954f, 1.67535108e-05f}));
    Value far = f.sub(f.constant(1), f.powerOfHalf(v));
    rewriter.replaceOp(op, f.choose(x, size, 0.93f, far, near));
    return success();
  }
};

/// 1 + erf(x), twice the normal distribution: by erfc(|x|) = 2^-v(|x|), whose
/// digits the sum would lose where x is negative. v is a fit on 0 to 4.2 of the
/// error in units of max(erfc, 0.01): 9e-8.
struct ExpandOnePlusErf : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AddFOp op,
                                PatternRewriter &rewriter) const override {
    auto erf = op.getLhs().getDefiningOp<math::ErfOp>();
    Value other = op.getRhs();
    if (!erf) {
      erf = op.getRhs().getDefiningOp<math::ErfOp>();
      other = op.getLhs();
    }
    if (!isSingle(op) || !erf || !erf->hasOneUse() ||
        !matchPattern(other, m_OneFloat()))
      return failure();
    SingleFormula f(rewriter, op.getLoc(), op.getType());
    Value x = erf.getOperand(), size = f.abs(x);
    Value limit = f.constant(4.2f), most = f.min(size, 4.2f);
    Value v =
        f.mul(most, f.polynomial(most, {1.62791359f, 0.918339789f, 0.148848385f,
                                        -0.0290273428f, 0.00157634832f,
                                        0.00108662387f, -0.000369799149f,
                                        5.1662024e-05f, -2.82831252e-06f}));
    Value zero = f.constant(0);
    // 0 from the limit on, not NaN's.
    Value small = f.select(f.less(limit, size), zero, f.powerOfHalf(v));
    Value sum = f.select(f.less(x, zero), small, f.sub(f.constant(2), small));
    rewriter.replaceOp(op, sum);
    return success();
  }
};
} // namespace

void buddy::populateMathFunctionPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandTanh, ExpandErf>(patterns.getContext());
  // Before erf is gone.
  patterns.add<ExpandOnePlusErf>(patterns.getContext(), /*benefit=*/2);
}
