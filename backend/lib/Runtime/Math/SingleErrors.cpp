//===- SingleErrors.cpp - error functions in f32 --------------------------===//

#include "Single.h"
#include "SingleTables.h"

#pragma GCC visibility push(default)

using namespace buddy;
using namespace buddy::tables;

/// exp(x^2) erfc(x). From 0 to 50 PyTorch looks up polynomials of f64 in
/// 400 / (4 + x), rounded to f32 (S. G. Johnson's Faddeeva package); what is
/// exact there has the same bits.
static BUDDY_MATH_INLINE float erfcx(float x) {
  if (std::isnan(x))
    return x;
  if (x > 50) {
    constexpr float kOneOverRootPi = 0.564189583547756287f;
    if (x > 5e7f)
      return kOneOverRootPi / x;
    float z = x * x;
    return kOneOverRootPi * (z * (z + 4.5) + 2) / (x * (z * (z + 5) + 3.75));
  }
  if (x < -26.7)
    return kInfinity;
  double growing = x < 0 ? 2 * std::exp(double(x * x)) : 0;
  if (x < -6.1)
    return growing;
  float y = 400 / (4 + std::fabs(x)), rest = buddy_special_erfcx(400.0 / y - 4);
  return x < 0 ? growing - rest : rest;
}

BUDDY_MATH_SINGLE float buddy_special_erfcxf(float x) { return erfcx(x); }

BUDDY_MATH_SINGLE float buddy_special_log_ndtrf(float x) {
  float t = x * 0.707106781186547524f;
  if (x < -1)
    return std::log(erfcx(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

/// The inverse of the normal distribution's cumulative function.
BUDDY_MATH_SINGLE float buddy_special_ndtrif(float p) {
  constexpr float kTail = 0.13533528323661269189f; // exp(-2)
  constexpr float kRootTwoPi = 2.50662827463100050242f;
  if (p == 0 || p == 1)
    return p == 0 ? -kInfinity : kInfinity;
  if (p < 0 || p > 1)
    return kNaN;
  bool upper = p > 1 - kTail;
  float y = upper ? 1 - p : p;
  if (y > kTail) {
    y -= 0.5f;
    float z = y * y;
    float change = z * polynomial(z, kNdtriCentralNumerator) /
                   polynomial(z, kNdtriCentralDenominator);
    return std::fma(y, change, y) * kRootTwoPi;
  }
  float x = std::sqrt(-2 * std::log(double(y))), z = 1 / x;
  float change = x < 8 ? z * polynomial(z, kNdtriTailNumerator) /
                             polynomial(z, kNdtriTailDenominator)
                       : z * polynomial(z, kNdtriFarNumerator) /
                             polynomial(z, kNdtriFarDenominator);
  float value = x - std::log(double(x)) / x;
  value -= change;
  return upper ? value : -value;
}

/// -x log x.
BUDDY_MATH_SINGLE float buddy_special_entrf(float x) {
  if (std::isnan(x))
    return x;
  return x > 0 ? -x * std::log(x) : x == 0 ? 0 : -kInfinity;
}
