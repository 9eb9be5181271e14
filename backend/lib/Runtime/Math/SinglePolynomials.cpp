//===- SinglePolynomials.cpp - orthogonal polynomials in f32 --------------===//
//
// By their three-term recurrences (DLMF 18.9), Chebyshev's of higher degrees
// inside of the interval by angles, as PyTorch does. A degree is an f32 number.
//
//===----------------------------------------------------------------------===//

#include "Single.h"

#include <cstdint>

#pragma GCC visibility push(default)

using namespace buddy;

/// A degree as a whole number; negative where it has none.
static BUDDY_MATH_INLINE int64_t degree(float n) {
  return n > -1 && n < 0x1p63f ? int64_t(n) : -1;
}

namespace {
/// Chebyshev's polynomials differ in the first two and at the ends of the
/// interval: T, U, V and W (DLMF 18.3).
enum class Kind { T, U, V, W };
} // namespace

/// The polynomial inside of (-1, 1) from `angle`, the arc cosine of x. Where
/// its denominator vanishes it has the value of the end.
static BUDDY_MATH_INLINE float byAngle(Kind kind, float x, int64_t n, float odd,
                                       bool shifted) {
  float angle = std::acos(x), half = angle / 2;
  switch (kind) {
  case Kind::T:
    return std::cos(n * angle);
  case Kind::U:
    if (std::sin(angle) != 0)
      return std::sin((n + 1) * angle) / std::sin(angle);
    return (n + 1) * std::cos((n + 1) * angle) / x;
  case Kind::V:
    if (std::sin(half) != 1)
      return std::cos((n + 0.5f) * angle) / std::cos(half);
    return odd * (n + n + 1);
  case Kind::W:
    if (std::cos(half) != 1)
      return std::sin((n + 0.5f) * angle) / std::sin(half);
    return x > 0 && !shifted ? n + n + 1 : odd;
  }
}

static BUDDY_MATH_INLINE float chebyshev(Kind kind, float x, int64_t n,
                                         int64_t last, bool shifted) {
  if (n < 0)
    return 0;
  float odd = n % 2 ? -1 : 1;
  float many = kind == Kind::U ? n + 1 : n + n + 1;
  bool atEnd = shifted ? x == 1 || x == 0 : std::fabs(x) == 1;
  bool atRight = x == 1;
  if (shifted)
    x = x + x - 1;
  if (atEnd) {
    if (atRight)
      return kind == Kind::T || kind == Kind::V ? 1 : many;
    return odd * (kind == Kind::T || kind == Kind::W ? 1 : many);
  }
  if (n > last && std::fabs(x) < 1)
    return byAngle(kind, x, n, odd, shifted);
  if (n == 0)
    return 1;
  float before = 1, value = kind == Kind::T   ? x
                            : kind == Kind::U ? x + x
                            : kind == Kind::V ? x + x - 1
                                              : x + x + 1;
  for (int64_t k = 2; k <= n && !std::isnan(value); ++k) {
    float next = std::fma(x + x, value, -before);
    before = value;
    value = next;
  }
  return value;
}

#define CHEBYSHEV(NAME, KIND, LAST, SHIFTED_LAST)                              \
  BUDDY_MATH_SINGLE float buddy_special_chebyshev_##NAME##f(float x,           \
                                                            float n) {         \
    return chebyshev(Kind::KIND, x, degree(n), LAST, false);                   \
  }                                                                            \
  BUDDY_MATH_SINGLE float buddy_special_shifted_chebyshev_##NAME##f(float x,   \
                                                                    float n) { \
    return chebyshev(Kind::KIND, x, degree(n), SHIFTED_LAST, true);            \
  }
CHEBYSHEV(t, T, 6, 6)
CHEBYSHEV(u, U, 8, 6)
CHEBYSHEV(v, V, 8, 6)
CHEBYSHEV(w, W, 8, 4)

/// p(n) from p(0) = 1, p(1) = first and a step (k, p(k), p(k - 1)) -> p(k + 1).
template <class Step>
static BUDDY_MATH_INLINE float recur(int64_t n, float first, Step step) {
  if (n <= 0)
    return n < 0 ? 0 : 1;
  float before = 1, value = first;
  for (int64_t k = 1; k < n && !std::isnan(value); ++k) {
    float next = step(k, value, before);
    before = value;
    value = next;
  }
  return value;
}

/// PyTorch gives up beyond this degree, where values overflow.
constexpr int64_t kHermiteDegrees = 128;

BUDDY_MATH_SINGLE float buddy_special_hermite_hf(float x, float order) {
  int64_t n = degree(order);
  if (n > kHermiteDegrees)
    return kNaN;
  return recur(n, x + x,
               [=](int64_t k, float p, float before)
                   __attribute__((always_inline)) {
                     return std::fma(x + x, p, -((k + k) * before));
                   });
}
BUDDY_MATH_SINGLE float buddy_special_hermite_hef(float x, float order) {
  int64_t n = degree(order);
  if (n > kHermiteDegrees)
    return kNaN;
  return recur(n, x,
               [=](int64_t k, float p, float before) __attribute__((
                   always_inline)) { return std::fma(x, p, -(k * before)); });
}
BUDDY_MATH_SINGLE float buddy_special_laguerre_lf(float x, float order) {
  int64_t n = degree(order);
  if (x == 0 && n >= 0)
    return 1;
  return recur(
      n, 1 - x,
      [=](int64_t k, float p, float before) __attribute__((always_inline)) {
        return std::fma((k + k) + (1 - x), p, -(k * before)) / (k + 1);
      });
}
BUDDY_MATH_SINGLE float buddy_special_legendre_pf(float x, float order) {
  int64_t n = degree(order);
  if (std::fabs(x) == 1 && n >= 0)
    return x > 0 || n % 2 == 0 ? 1 : -1;
  return recur(
      n, x,
      [=](int64_t k, float p, float before) __attribute__((always_inline)) {
        return std::fma((k + k + 1) * x, p, -(k * before)) / (k + 1);
      });
}
