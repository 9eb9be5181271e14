//===- DoubleFunctions.cpp - f64 functions as arithmetic ------------------===//
//
// Enters: math.exp and math.log on f64, scalars or vectors. Leaves: arithmetic,
// within one unit in the last place; zeros, infinities, NaNs and subnormals as
// in C (F.10). They were calls for each element.
//
// exp(x) = 2^n e^r with |r| of at most log(2) / 2, by two parts of log(2) (W.
// J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980).
// log(x) = n log(2) + log(1 + f) by s = f / (2 + f), whose even powers are
// enough, with the terms ordered as in Sun's fdlibm (e_log.c, 1993). The
// polynomials are minimax fits by Lawson's weighted least squares on 120
// Chebyshev nodes, in 40 digits: they err by 5e-18 and 3e-18.
//
//===----------------------------------------------------------------------===//

#include "Formula.h"
#include "MathOps.h"

#include "mlir/IR/PatternMatch.h"

#include <cmath>

using namespace mlir;
using namespace buddy;

namespace {
/// log(2) in two parts: the first has 11 zero bits, so that its product with an
/// exponent is exact.
constexpr double kLn2 = 0.6931471805598903, kLn2Rest = 5.497923018708371e-14;
/// Added to a number of less than 2^51, the last bits are the nearest integer.
constexpr double kRound = 6755399441055744;             // 1.5 * 2^52
constexpr int64_t kBitsOfHalfRoot = 0x3FE6A09E667F3BCD; // the root of 1/2
constexpr double kLeastNormal = 2.2250738585072014e-308;

class Double : public Formula {
public:
  using Formula::Formula;

  Value exponential(Value x) {
    // Beyond, the result is infinite or 0 all the same.
    x = make<arith::MinimumFOp>(x, constant(710));
    x = make<arith::MaximumFOp>(x, constant(-746));
    Value shifted = fma(x, constant(M_LOG2E), constant(kRound));
    Value n = sub(shifted, constant(kRound));
    Value r = fma(n, constant(-kLn2Rest), fma(n, constant(-kLn2), x));
    Value p = polynomial(r, {1, 1, 0.5, 0.16666666666666433,
                             0.04166666666660394, 0.00833333333350008,
                             0.0013888888926805074, 0.00019841269466149144,
                             2.4801508671095908e-05, 2.7557640908336633e-06,
                             2.7625191574900753e-07, 2.497837313574536e-08});
    // In two steps: 2^n may be out of range where the result is not.
    Value exponent =
        make<arith::SubIOp>(toBits(shifted), toBits(constant(kRound)));
    Value half = make<arith::ShRSIOp>(exponent, integer(1));
    Value rest = make<arith::SubIOp>(exponent, half);
    return mul(mul(p, power(half)), power(rest));
  }

  Value logarithm(Value x) {
    Value isTiny = less(x, constant(kLeastNormal));
    Value normal = select(isTiny, mul(x, constant(0x1p54)), x);
    Value distance =
        make<arith::SubIOp>(toBits(normal), integer(kBitsOfHalfRoot));
    Value exponent = make<arith::ShRSIOp>(distance, integer(52));
    Value m = fromBits(make<arith::SubIOp>(
        toBits(normal), make<arith::ShLIOp>(exponent, integer(52))));
    Value n =
        sub(fromBits(make<arith::AddIOp>(toBits(constant(kRound)), exponent)),
            constant(kRound));
    n = sub(n, select(isTiny, constant(54), constant(0)));
    Value f = sub(m, constant(1)), s = div(f, add(constant(2), f));
    Value z = mul(s, s), square = mul(mul(constant(0.5), f), f);
    Value p = mul(z, polynomial(z, {0.6666666666666734, 0.39999999999413915,
                                    0.285714287425712, 0.22222198552976322,
                                    0.18183565444841843, 0.1531402024326535,
                                    0.14796269247448907}));
    Value low = fma(n, constant(kLn2Rest), mul(s, add(square, p)));
    Value result = fma(n, constant(kLn2), sub(f, sub(square, low)));
    result = select(less(x, constant(HUGE_VAL)), result, x); // infinity and NaN
    result = select(equal(x, constant(0)), constant(-HUGE_VAL), result);
    return select(less(x, constant(0)), constant(NAN), result);
  }

private:
  /// 2^n.
  Value power(Value n) {
    Value shifted = make<arith::ShLIOp>(n, integer(52));
    return fromBits(make<arith::AddIOp>(toBits(constant(1)), shifted));
  }
};

template <class Op, Value (Double::*formula)(Value)>
struct ExpandDouble : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF64())
      return failure();
    Double f(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, (f.*formula)(op.getOperand()));
    return success();
  }
};
} // namespace

void buddy::populateDoubleFunctionPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandDouble<math::ExpOp, &Double::exponential>,
               ExpandDouble<math::LogOp, &Double::logarithm>>(
      patterns.getContext());
}
