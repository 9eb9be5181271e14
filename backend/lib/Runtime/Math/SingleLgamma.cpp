//===- SingleLgamma.cpp - the logarithm of the gamma function in f32 ------===//
//
// PyTorch's lgamma is that of SLEEF (N. Shibata and F. Petrogalli, "SLEEF: A
// Portable Vectorized Library of C Standard Mathematical Functions", IEEE TPDS
// 2020; lgammaf_u1, src/libm/sleefsimdsp.c), which computes with unevaluated
// sums of two numbers. Its coefficients and its order are kept, so that the
// last bits are the same.
//
//===----------------------------------------------------------------------===//

#include "Single.h"

#include <cstdint>
#include <cstring>
#include <utility>

#pragma GCC visibility push(default)

using namespace buddy;

namespace {
/// The sum of two numbers, the second below a rounding of the first.
struct Pair {
  float high, low;
};
} // namespace

/// Both parts of a constant.
static constexpr Pair split(double x) {
  return {float(x), float(x - double(float(x)))};
}

/// An exact sum (Knuth).
static BUDDY_MATH_INLINE Pair sum(float x, float y) {
  float high = x + y, part = high - x;
  return {high, (x - (high - part)) + (y - part)};
}
static BUDDY_MATH_INLINE Pair sum(Pair x, float y) {
  Pair result = sum(x.high, y);
  return {result.high, result.low + x.low};
}
static BUDDY_MATH_INLINE Pair sum(Pair x, Pair y) {
  Pair result = sum(x.high, y.high);
  return {result.high, result.low + (x.low + y.low)};
}
/// The sum where x is the larger one (Dekker).
static BUDDY_MATH_INLINE Pair orderedSum(Pair x, Pair y) {
  float high = x.high + y.high;
  return {high, x.high - high + y.high + x.low + y.low};
}
static BUDDY_MATH_INLINE Pair normalized(Pair x) {
  float high = x.high + x.low;
  return {high, x.high - high + x.low};
}

static BUDDY_MATH_INLINE Pair product(float x, float y) {
  float high = x * y;
  return {high, std::fma(x, y, -high)};
}
static BUDDY_MATH_INLINE Pair product(Pair x, float y) {
  Pair result = product(x.high, y);
  return {result.high, std::fma(x.low, y, result.low)};
}
static BUDDY_MATH_INLINE Pair product(Pair x, Pair y) {
  Pair result = product(x.high, y.high);
  float low = std::fma(x.low, y.high, result.low);
  return {result.high, std::fma(x.high, y.low, low)};
}
static BUDDY_MATH_INLINE Pair square(Pair x) {
  Pair result = product(x.high, x.high);
  return {result.high, std::fma(x.high + x.high, x.low, result.low)};
}
static BUDDY_MATH_INLINE Pair quotient(Pair x, Pair y) {
  float inverse = 1 / y.high;
  Pair result = product(x.high, inverse);
  float rest = std::fma(-y.low, inverse, std::fma(-y.high, inverse, 1.f));
  float low = std::fma(x.low, inverse, result.low);
  return {result.high, std::fma(result.high, rest, low)};
}
static BUDDY_MATH_INLINE Pair negated(Pair x) { return {-x.high, -x.low}; }
static BUDDY_MATH_INLINE Pair scaled(Pair x, float power) {
  return {x.high * power, x.low * power};
}

static BUDDY_MATH_INLINE int32_t bitsOf(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
static BUDDY_MATH_INLINE float fromBits(int32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

/// The logarithm of a positive number, from that of its mantissa m, between 3/4
/// and 3/2: twice the inverse hyperbolic tangent of (m - 1) / (m + 1).
static BUDDY_MATH_INLINE Pair logarithm(Pair x) {
  static constexpr float coefficients[] = {0.23928284645f, 0.28518211842f,
                                           0.40000587702f, 0.66666668653f};
  // Of normal numbers below 2^127, as their bits tell.
  int exponent = (bitsOf(x.high * (1 / 0.75f)) >> 23) - 127;
  Pair mantissa = scaled(x, fromBits((127 - exponent) << 23));
  Pair t = quotient(sum(mantissa, -1), sum(mantissa, 1)), z = square(t);
  float tail = coefficients[0];
  for (int i = 1; i < 4; ++i)
    tail = std::fma(tail, z.high, coefficients[i]);
  Pair value = product(Pair{0.69314718246459960938f, -1.904654323148236017e-9f},
                       exponent);
  value = orderedSum(value, scaled(t, 2));
  return orderedSum(value, product(product(z, t), tail));
}

/// sin(pi x) by eighths of a circle.
static BUDDY_MATH_INLINE Pair sineOfPi(float x) {
  float u = x * 4;
  int eighth = int(u);
  eighth = (eighth + (int(unsigned(eighth) >> 31) ^ 1)) & ~1;
  bool cosine = eighth & 2;
  float t = u - eighth, s = t * t;
  Pair z = product(t, t);
  float tail = cosine ? -0.2430611801e-7f : 0.3093842054e-6f;
  tail = std::fma(tail, s, cosine ? 0.3590577080e-5f : -0.3657307388e-4f);
  tail = std::fma(tail, s, cosine ? -0.3259917721e-3f : 0.2490393585e-2f);
  Pair value =
      sum(cosine ? Pair{0.015854343771934509277f, 4.4940051354032242811e-10f}
                 : Pair{-0.080745510756969451904f, -1.3373665339076936258e-9f},
          tail * s);
  value =
      sum(product(z, value),
          cosine ? Pair{-0.30842512845993041992f, -9.0728339030733922277e-9f}
                 : Pair{0.78539818525314331055f, -2.1857338617566484855e-8f});
  value = product(value, cosine ? z : Pair{t, 0});
  if (cosine)
    value = sum(value, 1);
  return eighth & 4 ? negated(value) : value;
}

namespace {
/// Where a polynomial approximates: near 1, between 1.2 and 2.3 in powers of
/// x - 2, and in powers of 1 / x beyond.
enum Interval { Near, Middle, Far };
} // namespace

/// log |gamma(x)| as the logarithm of a factor that is exact, or reflection's,
/// and the rest.
BUDDY_MATH_SINGLE float buddy_special_lgammaf(float a) {
  static constexpr float coefficients[][3] = {
      {0.9435157776f, 0.1102489550e-3f, 0.00083949872067f},
      {0.8670063615f, 0.8160019934e-4f, -5.1717909083e-5f},
      {0.4826702476f, 0.1528468856e-3f, -0.00059216643735f},
      {-0.8855129778e-1f, -0.2355068718e-3f, 6.9728137584e-5f},
      {0.1013825238f, 0.4962242092e-3f, 0.00078403922172f},
      {-0.1493408978f, -0.1193488017e-2f, -0.00022947209362f},
      {0.1697509140f, 0.2891599433e-2f, -0.0026813271605f},
      {-0.2072454542f, -0.7385451812e-2f, 0.0034722222222f},
      {0.2705872357f, 0.2058077045e-1f, 0.083333333333f}};
  constexpr float kOverflow = 1e37f;
  if (std::fabs(a) > kOverflow || (a <= 0 && a == std::trunc(a)))
    return kInfinity;
  if (std::isnan(a))
    return a;
  bool tiny = std::fabs(a) < 1e-30f, reflect = a < 0.5f;
  Pair x = tiny ? Pair{0, 0} : reflect ? sum(1, -a) : Pair{a, 0};
  Interval interval = x.high >= 2.3f                     ? Far
                      : x.high >= 0.5f && x.high <= 1.2f ? Near
                                                         : Middle;
  // Small numbers are moved up by 3.
  Pair numerator{1, 0}, denominator{1, 0};
  if (interval == Far && x.high <= 7) {
    numerator = normalized(product(sum(x, 1), x));
    numerator = normalized(product(sum(x, 2), numerator));
    x = sum(x, 3);
  }
  float t = interval == Far
                ? 1 / x.high
                : normalized(sum(x, interval == Near ? -1.f : -2.f)).high;
  float tail = coefficients[0][interval];
  for (int i = 1; i < 9; ++i)
    tail = std::fma(tail, t, coefficients[i][interval]);
  Pair value;
  if (interval == Far) {
    value = product(sum(x, -0.5f), logarithm(x));
    value = sum(value, negated(x));
    value = sum(value, split(0.91893853320467278056)); // log(2 pi) / 2
    denominator = sum(product(tail, t), 1);
  } else {
    bool near = interval == Near;
    value = sum(product(tail, t), near ? -0.40068653460f : -0.067352302830f);
    value = sum(product(value, t), near ? 0.82246696014f : 0.32246703393f);
    value = sum(product(value, t), near ? -0.57721566595f : 0.42278433509f);
    value = product(value, t);
  }
  if (tiny) {
    value = split(41.58883083359671856503); // log(2^60)
    numerator = {1, 0};
    denominator = {a * 0x1p60f, 0};
  } else if (reflect) {
    value = sum(split(1.1447298858494001639), negated(value)); // log(pi)
    float rest = a - 4096 * float(int(a * (1 / 4096.f)));
    denominator = product(denominator, sineOfPi(rest));
  } else {
    std::swap(numerator, denominator);
  }
  Pair factor = quotient(numerator, denominator);
  if (factor.high < 0)
    factor = negated(factor);
  value = sum(value, logarithm(factor));
  float result = value.high + value.low;
  return std::isnan(result) ? kInfinity : result; // An overflow.
}
