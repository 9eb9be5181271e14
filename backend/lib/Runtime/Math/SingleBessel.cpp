//===- SingleBessel.cpp - Bessel and Airy functions in f32 ----------------===//
//
// Each is approximated near 0 and asymptotically (Cephes' i0.c, i1.c, j0.c,
// j1.c, k0.c, k1.c, airy.c). J and Y of infinities are NaN, as PyTorch's are.
//
//===----------------------------------------------------------------------===//

#include "Single.h"
#include "SingleTables.h"

#pragma GCC visibility push(default)

using namespace buddy;
using namespace buddy::tables;

// ---- modified functions -----------------------------------------------------

/// The arguments of the series for I up to 8 and beyond.
static BUDDY_MATH_INLINE float smallArgument(float x) { return x / 2 - 2; }
static BUDDY_MATH_INLINE float largeArgument(float x) { return 32 / x - 2; }

static BUDDY_MATH_INLINE float i0(float x) {
  x = std::fabs(x);
  if (x <= 8)
    return std::exp(x) * series(smallArgument(x), kI0Small);
  return std::exp(x) * series(largeArgument(x), kI0Large) / std::sqrt(x);
}

static BUDDY_MATH_INLINE float i1(float x) {
  float size = std::fabs(x), value;
  if (size <= 8)
    value = series(smallArgument(size), kI1Small) * size * std::exp(size);
  else
    value = std::exp(size) * series(largeArgument(size), kI1Large) /
            std::sqrt(size);
  return x < 0 ? -value : value;
}

BUDDY_MATH_SINGLE float buddy_special_i0f(float x) { return i0(x); }

BUDDY_MATH_SINGLE float buddy_special_i0ef(float x) {
  x = std::fabs(x);
  if (x <= 8)
    return series(smallArgument(x), kI0Small);
  return series(largeArgument(x), kI0Large) / std::sqrt(x);
}

/// Terms of the series for I1 that i1 and i1e leave out in f32, but not
/// modified_bessel_i1.
constexpr size_t kSkipSmall = 12, kSkipLarge = 18;

BUDDY_MATH_SINGLE float buddy_special_i1f(float x) {
  float size = std::fabs(x), value;
  if (size <= 8)
    value = std::exp(size) * size *
            series(smallArgument(size), kI1Small, kSkipSmall);
  else
    value = std::exp(size) * series(largeArgument(size), kI1Large, kSkipLarge) /
            std::sqrt(size);
  return x < 0 ? -value : value;
}

BUDDY_MATH_SINGLE float buddy_special_i1ef(float x) {
  float size = std::fabs(x), value;
  if (size <= 8)
    value = series(smallArgument(size), kI1Small, kSkipSmall) * size;
  else
    value = series(largeArgument(size), kI1Large, kSkipLarge) / std::sqrt(size);
  return x < 0 ? -value : value;
}

BUDDY_MATH_SINGLE float buddy_special_modified_i1f(float x) { return i1(x); }

/// Whether x is outside of the domain of K, and then its value.
static BUDDY_MATH_INLINE bool outside(float x, float &value) {
  value = x == 0 ? kInfinity : kNaN;
  return x <= 0;
}

BUDDY_MATH_SINGLE float buddy_special_k0f(float x) {
  float value;
  if (outside(x, value))
    return value;
  if (x <= 2)
    return std::fma(-std::log(0.5 * x), double(i0(x)),
                    double(series(std::fma(x, x, -2.f), kK0Small)));
  return std::exp(-x) * series(8 / x - 2, kK0Large) / std::sqrt(x);
}

BUDDY_MATH_SINGLE float buddy_special_k0ef(float x) {
  float value;
  if (outside(x, value))
    return value;
  if (x <= 2)
    return std::fma(-std::log(0.5f * x), i0(x),
                    series(std::fma(x, x, -2.f), kK0Small)) *
           std::exp(x);
  return series(8 / x - 2, kK0Large) / std::sqrt(x);
}

static BUDDY_MATH_INLINE float k1Small(float x) {
  return std::fma(std::log(0.5f * x), i1(x),
                  series(std::fma(x, x, -2.f), kK1Small) / x);
}

BUDDY_MATH_SINGLE float buddy_special_k1f(float x) {
  float value;
  if (outside(x, value))
    return value;
  if (x <= 2)
    return k1Small(x);
  return std::exp(-x) * series(8 / x - 2, kK1Large) / std::sqrt(x);
}

BUDDY_MATH_SINGLE float buddy_special_k1ef(float x) {
  float value;
  if (outside(x, value))
    return value;
  if (x <= 2)
    return k1Small(x) * std::exp(x);
  return series(8 / x - 2, kK1Large) / std::sqrt(x);
}

// ---- functions of the first and second kind ---------------------------------

constexpr float kTwoOverPi = 0.636619772367581343f;
constexpr float kRootTwoOverPi = 0.797884560802865356f;
constexpr float kQuarterPi = 0.785398163397448310f;
constexpr float kThreeQuartersPi = 2.356194490192344929f;

/// The amplitude P and, with 5 / x, Q of Hankel's expansion.
struct Amplitudes {
  float p, q;
};

static BUDDY_MATH_INLINE Amplitudes order0(float x) {
  float z = 25 / (x * x);
  return {quotient(z, kJ0PNumerator, kJ0PDenominator),
          5 / x * quotient(z, kJ0QNumerator, kJ0QDenominator)};
}

static BUDDY_MATH_INLINE Amplitudes order1(float x) {
  float z = 5 / x * (5 / x);
  return {quotient(z, kJ1PNumerator, kJ1PDenominator),
          5 / x * quotient(z, kJ1QNumerator, kJ1QDenominator)};
}

static BUDDY_MATH_INLINE float firstKind(Amplitudes a, float angle, float x) {
  float wave = std::fma(a.p, std::cos(angle), -(a.q * std::sin(angle)));
  return wave * kRootTwoOverPi / std::sqrt(x);
}

static BUDDY_MATH_INLINE float secondKind(Amplitudes a, float angle, float x) {
  float wave = std::fma(a.p, std::sin(angle), a.q * std::cos(angle));
  return wave * kRootTwoOverPi / std::sqrt(x);
}

static BUDDY_MATH_INLINE float j0(float x) {
  x = std::fabs(x);
  if (!(x <= 5))
    return firstKind(order0(x), x - kQuarterPi, x);
  float z = x * x;
  if (x < 0.00001f)
    return 1 - z / 4;
  return (z - 5.78318596294678452118f) * (z - 30.4712623436620863991f) *
         polynomial(z, kJ0Numerator) / polynomial(z, kJ0Denominator);
}

static BUDDY_MATH_INLINE float j1(float x) {
  float size = x < 0 ? -x : x, value, z = x * x; // -0 stays.
  if (size <= 5)
    value = quotient(z, kJ1Numerator, kJ1Denominator) * size *
            (z - 14.6819706421238932572f) * (z - 49.2184563216946036703f);
  else
    value = firstKind(order1(size), size - kThreeQuartersPi, size);
  return x < 0 ? -value : value;
}

BUDDY_MATH_SINGLE float buddy_special_j0f(float x) { return j0(x); }
BUDDY_MATH_SINGLE float buddy_special_j1f(float x) { return j1(x); }

BUDDY_MATH_SINGLE float buddy_special_y0f(float x) {
  if (!(x <= 5))
    return secondKind(order0(x), x - kQuarterPi, x);
  if (x <= 0)
    return x == 0 ? -kInfinity : kNaN;
  return std::fma(kTwoOverPi * std::log(x), j0(x),
                  quotient(x * x, kY0Numerator, kY0Denominator));
}

BUDDY_MATH_SINGLE float buddy_special_y1f(float x) {
  if (!(x <= 5))
    return secondKind(order1(x), x - kThreeQuartersPi, x);
  if (x <= 0)
    return x == 0 ? -kInfinity : kNaN;
  float rest = std::fma(j1(x), std::log(x), -(1 / x));
  return std::fma(x, quotient(x * x, kY1Numerator, kY1Denominator),
                  kTwoOverPi * rest);
}

/// sin(x) / x, near 0 by its Taylor series.
BUDDY_MATH_SINGLE float buddy_special_spherical_j0f(float x) {
  static constexpr float taylor[] = {1 / 6227020800.f,
                                     -1 / 39916800.f,
                                     1 / 362880.f,
                                     -1 / 5040.f,
                                     1 / 120.f,
                                     -1 / 6.f,
                                     1};
  if (std::isinf(x))
    return 0;
  if (std::fabs(x) < 0.5f)
    return polynomial(x * x, taylor);
  return std::sin(x) / x;
}

// ---- Airy's function --------------------------------------------------------

BUDDY_MATH_SINGLE float buddy_special_airy_aif(float x) {
  constexpr float kOneOverRootPi = 0.564189583547756287f;
  if (std::isinf(x))
    return kNaN;
  if (x > 103.892f)
    return 0;
  if (x < -2.09f) {
    float root = std::sqrt(-x), angle = -2 * x * root / 3;
    float z = 1 / angle, square = z * z;
    float f = 1 + square * polynomial(square, kAiryFNumerator) /
                      polynomial(square, kAiryFDenominator);
    float g = z * polynomial(square, kAiryGNumerator) /
              polynomial(square, kAiryGDenominator);
    angle += 0.25f * kPi;
    return kOneOverRootPi / std::sqrt(root) *
           std::fma(std::sin(angle), f, -(std::cos(angle) * g));
  }
  if (x >= 2.09f) {
    float root = std::sqrt(x), angle = 2 * x * root / 3;
    return kOneOverRootPi *
           quotient(1 / angle, kAiryLargeNumerator, kAiryLargeDenominator) /
           (2 * std::sqrt(root) * std::exp(angle));
  }
  // Its two power series in x^3.
  float f = 1, g = x, fTerm = 1, gTerm = x, cube = x * x * x, k = 1, change = 1;
  while (change > std::numeric_limits<float>::epsilon()) {
    fTerm = fTerm * cube / (k + 1) / (k + 2);
    gTerm = gTerm * cube / (k + 2) / (k + 3);
    k += 3;
    f += fTerm;
    g += gTerm;
    change = std::fabs(fTerm / f);
  }
  return std::fma(0.355028053887817239260f, f, -(0.258819403792806798405f * g));
}
