//===- WideFunctions.cpp - f32 functions by arithmetic of f64 -------------===//
//
// Enters: functions of f32, scalars or vectors, that have no cheap formula of
// their own type. Leaves: arithmetic of f64, whose result is rounded once. Each
// formula errs by less than 2e-11, so that all but a few in a thousand results
// are the nearest f32; zeros, infinities and NaNs are as in C (F.10).
//
// Angles are reduced by two parts of π/2, exact enough up to 2^50 since a
// product is rounded with the difference only; beyond, where a vector holds
// such an angle, the C library is called. Sources: W. J. Cody and W. Waite,
// Software Manual for the Elementary Functions, 1980 (reductions); the
// polynomials are minimax fits by Lawson's weighted least squares on 600
// Chebyshev nodes.
//
//===----------------------------------------------------------------------===//

#include "Formula.h"
#include "MathOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace buddy;

namespace {
constexpr double kPi = 3.141592653589793, kHalfPi = 1.5707963267948966;
/// π/2 - kHalfPi.
constexpr double kHalfPiRest = 6.123233995736766e-17;
constexpr double kInverseHalfPi = 0.6366197723675814;
constexpr double kLargestAngle = 1125899906842624; // 2^50
/// Added to a number of less than 2^51, the last bits are the nearest integer.
constexpr double kRound = 6755399441055744; // 1.5 * 2^52
constexpr double kInfinity = HUGE_VAL;

/// Builds functions of f64.
class Wide : public Formula {
public:
  /// `type`: f32 or a vector of it.
  Wide(OpBuilder &b, Location loc, Type type)
      : Formula(b, loc, like(type, b.getF64Type())) {}

  Value widen(Value x) { return make<arith::ExtFOp>(type, x); }

  /// The integers nearest to numbers of less than 2^51, as numbers and as bits
  /// of which the lower 32 count.
  std::pair<Value, Value> round(Value x) {
    Value shifted = add(x, constant(kRound));
    return {sub(shifted, constant(kRound)), toBits(shifted)};
  }

  /// Sine and cosine of an angle of less than 2^50, or one of them turned by
  /// quarters: bit 0 of `quadrant` exchanges them, bit 1 negates the first.
  struct Angle {
    Value sine, cosine, quadrant;
  };
  Angle angle(Value x) {
    auto [k, quadrant] = round(mul(x, constant(kInverseHalfPi)));
    Value r = fma(k, constant(-kHalfPi), x);
    r = fma(k, constant(-kHalfPiRest), r);
    Value square = mul(r, r);
    Value s =
        polynomial(square, {-0.16666666666627974, 0.0083333333246136537,
                            -0.00019841263458578106, 2.7555279472172288e-06,
                            -2.4755925600689865e-08});
    Value c = polynomial(square,
                         {1, -0.5, 0.04166666661922256, -0.0013888883440004978,
                          2.4799436823934322e-05, -2.7203337914220705e-07});
    // So that the sine of -0 is -0.
    return {mul(r, fma(square, s, constant(1))), c, quadrant};
  }
  /// The sine of an angle in some quadrant more.
  Value turned(const Angle &angle, int64_t more) {
    Value quadrant = make<arith::AddIOp>(angle.quadrant, integer(more));
    Value size = select(isSet(quadrant, 1), angle.cosine, angle.sine);
    return select(isSet(quadrant, 2), neg(size), size);
  }
  Value tangent(const Angle &angle) {
    Value odd = isSet(angle.quadrant, 1);
    return div(select(odd, neg(angle.cosine), angle.sine),
               select(odd, angle.sine, angle.cosine));
  }

  /// The angle of the point (x, y).
  Value atan2(Value y, Value x) {
    Value width = abs(x), height = abs(y), zero = constant(0);
    Value steep = less(width, height);
    Value above = select(steep, width, height);
    Value below = select(steep, height, width);
    // Equal ones may both be 0 or both be infinite.
    Value same = select(equal(below, zero), zero, constant(1));
    Value t = select(equal(above, below), same, div(above, below));
    Value square = mul(t, t);
    Value p = polynomial(
        square,
        {-0.33333333130201986, 0.19999985332221909, -0.14285343322223121,
         0.11106369416875331, -0.090549515857718518, 0.075153726709684676,
         -0.060686646060939792, 0.044366591780961175, -0.026745629172510749,
         0.011910828064029736, -0.0033771582361851013, 0.00044918321232401424});
    Value a = fma(mul(t, square), p, t);
    a = select(steep, sub(constant(kHalfPi), a), a);
    a = select(isNegative(x), sub(constant(kPi), a), a);
    return withSign(a, y);
  }

  /// 2^x, infinite or zero beyond what f32 holds.
  Value exp2(Value x) {
    auto [scale, excess] = powerOfTwo(x);
    return fma(scale, excess, scale);
  }
  /// e^x likewise.
  Value exponential(Value x) { return exp2(mul(x, constant(M_LOG2E))); }
  /// e^x - 1, near 0 with all its digits.
  Value expm1(Value x) {
    auto [scale, excess] = powerOfTwo(mul(x, constant(M_LOG2E)));
    Value result = fma(scale, excess, sub(scale, constant(1)));
    return select(equal(x, constant(0)), x, result); // -0 too
  }

  /// log(1 + x). The sum's rounding is made up for as W. Kahan does (HP-15C
  /// Advanced Functions Handbook, 1982, appendix).
  Value log1p(Value x) {
    Value one = constant(1), u = add(x, one), d = sub(u, one);
    Value infinite = equal(x, constant(kInfinity));
    Value factor = div(mul(constant(M_LN2), x), d);
    Value result = mul(log2(u), select(infinite, one, factor));
    return select(equal(d, constant(0)), x, result);
  }

  /// log2 of a number that came from f32; NaN if it is negative.
  Value log2(Value x) {
    // x = m 2^e with m of [√½, √2).
    Value raw = toBits(x);
    Value offset = integer(0x3fe6a09e667f3bcd); // √½
    Value shifted = make<arith::SubIOp>(raw, offset);
    Value e = make<arith::ShRSIOp>(shifted, integer(52));
    Value whole = make<arith::ShLIOp>(e, integer(52));
    Value m = fromBits(make<arith::SubIOp>(raw, whole));
    // The few bits of e are those of a number near kRound.
    Value magic = toBits(constant(kRound));
    Value number = fromBits(make<arith::AddIOp>(e, magic));
    number = sub(number, constant(kRound));
    Value one = constant(1), s = div(sub(m, one), add(m, one));
    Value square = mul(s, s);
    Value p = polynomial(square, {1, 0.33333333333288429, 0.20000000028954185,
                                  0.14285708074561773, 0.11111722643203491,
                                  0.090605797544693431, 0.084253640824036677});
    Value result = fma(mul(s, p), constant(2 * M_LOG2E), number);
    Value zero = constant(0), infinity = constant(kInfinity);
    result = select(equal(x, infinity), infinity, result);
    result = select(equal(x, zero), neg(infinity), result);
    // Also where x is NaN.
    Value positive = either(less(zero, x), equal(x, zero));
    return select(positive, result, constant(NAN));
  }

  Value sinh(Value x) {
    Value size = abs(x), e = exponential(size), square = mul(x, x);
    Value far = mul(constant(0.5), sub(e, div(constant(1), e)));
    Value p =
        polynomial(square, {0.16666666667069135, 0.0083333332763366776,
                            0.00019841296047123572, 2.7552063845858035e-06,
                            2.5529829217100523e-08});
    return choose(x, size, 1, far, fma(mul(x, square), p, x));
  }
  Value cosh(Value x) {
    Value e = exponential(abs(x));
    return mul(constant(0.5), add(e, div(constant(1), e)));
  }

  Value power(Value x, Value y) {
    Value zero = constant(0), one = constant(1), half = constant(0.5);
    Value size = abs(x);
    Value result = exp2(mul(y, log2(size)));
    // An infinite exponent, where the logarithm is 0.
    result = select(both(equal(size, one), equal(y, y)), one, result);
    Value halved = mul(y, half);
    Value isWhole = equal(floor(y), y), isEven = equal(floor(halved), halved);
    Value finite = less(neg(constant(kInfinity)), x);
    Value bad = both(both(less(x, zero), finite), isNot(isWhole));
    result = select(bad, constant(NAN), result);
    Value odd = both(isWhole, isNot(isEven));
    result = select(both(odd, isNegative(x)), neg(result), result);
    return select(either(equal(x, one), equal(y, zero)), one, result);
  }

private:
  /// {2^k, 2^f - 1} of x = k + f with |f| of at most a half.
  std::pair<Value, Value> powerOfTwo(Value x) {
    x = make<arith::MinimumFOp>(x, constant(300));
    x = make<arith::MaximumFOp>(x, constant(-300));
    auto [k, exponent] = round(x);
    Value f = sub(x, k);
    Value p = polynomial(f, {0.6931471805460917, 0.24022650695568962,
                             0.055504109408778042, 0.0096181292164813151,
                             0.0013333450762774868, 0.00015403417265145232,
                             1.5310044875769114e-05, 1.3263157329629672e-06});
    Value shifted = make<arith::ShLIOp>(exponent, integer(52));
    Value scale = make<arith::AddIOp>(toBits(constant(1)), shifted);
    return {fromBits(scale), mul(f, p)};
  }

  static Type like(Type type, Type element) {
    if (auto vector = dyn_cast<VectorType>(type))
      return vector.clone(element);
    return element;
  }
  Value isSet(Value number, int64_t bit) {
    Value masked = make<arith::AndIOp>(number, integer(bit));
    return make<arith::CmpIOp>(arith::CmpIPredicate::ne, masked, integer(0));
  }
  /// Of -0 and of a NaN with the sign bit too.
  Value isNegative(Value x) {
    return make<arith::CmpIOp>(arith::CmpIPredicate::slt, toBits(x),
                               integer(0));
  }
  Value isNot(Value condition) {
    return make<arith::XOrIOp>(condition,
                               splat(b.getBoolAttr(true), condition.getType()));
  }
};

Value wideResult(Wide &w, Operation *op) {
  auto operand = [&](unsigned i) { return w.widen(op->getOperand(i)); };
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](math::SinOp) { return w.turned(w.angle(operand(0)), 0); })
      .Case([&](math::CosOp) { return w.turned(w.angle(operand(0)), 1); })
      .Case([&](math::TanOp) { return w.tangent(w.angle(operand(0))); })
      .Case([&](math::AtanOp) { return w.atan2(operand(0), w.constant(1)); })
      .Case([&](math::Atan2Op) { return w.atan2(operand(0), operand(1)); })
      .Case([&](math::AsinOp) {
        Value x = operand(0), one = w.constant(1);
        return w.atan2(x, w.sqrt(w.mul(w.sub(one, x), w.add(one, x))));
      })
      .Case([&](math::AcosOp) {
        Value x = operand(0), one = w.constant(1);
        return w.atan2(w.sqrt(w.mul(w.sub(one, x), w.add(one, x))), x);
      })
      .Case([&](math::SinhOp) { return w.sinh(operand(0)); })
      .Case([&](math::CoshOp) { return w.cosh(operand(0)); })
      .Case([&](math::Exp2Op) { return w.exp2(operand(0)); })
      .Case([&](math::ExpM1Op) { return w.expm1(operand(0)); })
      .Case([&](math::Log1pOp) { return w.log1p(operand(0)); })
      .Case([&](math::LogOp) {
        return w.mul(w.log2(operand(0)), w.constant(M_LN2));
      })
      .Case([&](math::Log2Op) { return w.log2(operand(0)); })
      .Case([&](math::Log10Op) {
        return w.mul(w.log2(operand(0)), w.constant(M_LN2 * M_LOG10E));
      })
      .Case([&](math::PowFOp) { return w.power(operand(0), operand(1)); })
      .Default([](Operation *) { return Value(); });
}

struct ExpandWide : RewritePattern {
  ExpandWide(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    Type type = op->getResult(0).getType();
    if (!isWideFunction(op->getName().getStringRef()) ||
        !getElementTypeOrSelf(type).isF32() || op->hasAttr(kMathCall))
      return failure();
    bool isAngle = isa<math::SinOp, math::CosOp, math::TanOp>(op);
    auto vector = dyn_cast<VectorType>(type);
    if (isAngle && vector && vector.getRank() != 1)
      return rewriter.notifyMatchFailure(op, "lanes of one dimension only");
    Location loc = op->getLoc();
    Wide w(rewriter, loc, type);
    Value result =
        arith::TruncFOp::create(rewriter, loc, type, wideResult(w, op));
    if (isAngle)
      result = callWhereLarge(op, result, rewriter);
    rewriter.replaceOp(op, result);
    return success();
  }

private:
  /// The function of the C library, an element at a time.
  static Value call(Operation *op, OpBuilder &b) {
    Location loc = op->getLoc();
    auto scalar = [&](OpBuilder &b, Value x) {
      Operation *call = b.create(loc, op->getName().getIdentifier(), x,
                                 getElementTypeOrSelf(x.getType()));
      call->setAttr(kMathCall, b.getUnitAttr());
      return call->getResult(0);
    };
    Value operand = op->getOperand(0);
    auto vector = dyn_cast<VectorType>(operand.getType());
    if (!vector)
      return scalar(b, operand);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value one = arith::ConstantIndexOp::create(b, loc, 1);
    Value count = arith::ConstantIndexOp::create(b, loc, vector.getDimSize(0));
    if (vector.isScalable())
      count = arith::MulIOp::create(b, loc, count,
                                    vector::VectorScaleOp::create(b, loc));
    auto lanes = scf::ForOp::create(
        b, loc, zero, count, one, operand,
        [&](OpBuilder &b, Location loc, Value i, ValueRange carried) {
          Value x = vector::ExtractOp::create(b, loc, operand, i);
          scf::YieldOp::create(
              b, loc,
              vector::InsertOp::create(b, loc, scalar(b, x), carried[0], i)
                  .getResult());
        });
    return lanes.getResult(0);
  }

  static Value callWhereLarge(Operation *op, Value result,
                              PatternRewriter &rewriter) {
    Location loc = op->getLoc();
    Type type = result.getType();
    Formula f(rewriter, loc, type);
    Value size = f.abs(op->getOperand(0));
    Value large =
        arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OGE, size,
                              f.constant(kLargestAngle));
    Value any = large;
    if (isa<VectorType>(type))
      any = vector::ReductionOp::create(rewriter, loc,
                                        vector::CombiningKind::OR, large);
    auto choice = scf::IfOp::create(
        rewriter, loc, any,
        [&](OpBuilder &b, Location loc) {
          Value exact = call(op, b);
          scf::YieldOp::create(
              b, loc,
              arith::SelectOp::create(b, loc, large, exact, result)
                  .getResult());
        },
        [&](OpBuilder &b, Location loc) {
          scf::YieldOp::create(b, loc, result);
        });
    return choice.getResult(0);
  }
};
} // namespace

void buddy::populateWideFunctionPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandWide>(patterns.getContext());
}
