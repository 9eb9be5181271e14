//===- SingleGamma.cpp - gamma functions and their kin in f32 -------------===//

#include "Single.h"
#include "SingleTables.h"

#pragma GCC visibility push(default)

using namespace buddy;

/// By recurrence to at least 10, then the asymptotic series (DLMF 5.11.2);
/// reflected for negative numbers. The tangent alone is f64.
static BUDDY_MATH_INLINE float digamma(float x) {
  if (x == 0)
    return std::copysign(kInfinity, -x);
  float reflected = 0;
  if (x < 0) {
    if (x == std::trunc(x))
      return kNaN;
    double whole, pi = 3.14159265358979323846;
    reflected = pi / std::tan(pi * std::modf(double(x), &whole));
    x = 1 - x;
  }
  float value = 0;
  while (x < 10) {
    value -= 1 / x;
    x += 1;
  }
  if (x == 10)
    return value + 2.25175258906672110764f - reflected;
  float rest = 0;
  if (x < 1e17f) {
    float z = 1 / (x * x);
    rest = z * polynomial(z, tables::kDigamma);
  }
  return value + std::log(x) - 0.5f / x - rest - reflected;
}

/// The derivative of digamma, reflected below 1/2.
static BUDDY_MATH_INLINE float trigamma(float x) {
  float value = 0, sign = 1;
  if (x < 0.5f) {
    sign = -1;
    float sine = std::sin(kPi * x);
    value -= kPi * kPi / (sine * sine);
    x = 1 - x;
  }
  for (int i = 0; i < 6; ++i) {
    value += 1 / (x * x);
    x += 1;
  }
  float z = 1 / (x * x);
  float inner = std::fma(-z, 1.f / 42, 1.f / 30);
  inner = std::fma(-z, inner, 1.f / 6);
  value += std::fma(z, inner, 1 + 1 / (2 * x)) / x;
  return sign * value;
}

/// Hurwitz's zeta function by Euler and Maclaurin (Cephes' zeta.c): f64 but for
/// the first term.
static BUDDY_MATH_INLINE float zeta(float s, float q) {
  // (2k)! / B2k.
  static constexpr double divisors[] = {12.0,
                                        -720.0,
                                        30240.0,
                                        -1209600.0,
                                        47900160.0,
                                        -1.8924375803183791606e9,
                                        7.47242496e10,
                                        -2.950130727918164224e12,
                                        1.1646782814350067249e14,
                                        -4.5979787224074726105e15,
                                        1.8152105401943546773e17,
                                        -7.1661652561756670113e18};
  constexpr double epsilon = std::numeric_limits<double>::epsilon() / 2;
  if (s == 1)
    return kInfinity;
  if (s < 1)
    return kNaN;
  if (q <= 0) {
    if (q == std::floor(q))
      return kInfinity;
    if (s != std::floor(s))
      return kNaN;
  }
  double sum = std::pow(q, -s), base = q, power = 0, exponent = -s;
  for (int i = 0; i < 9 || base <= 9; ++i) {
    base += 1;
    power = std::pow(base, exponent);
    sum += power;
    if (-epsilon * sum < power && power < epsilon * sum)
      return sum;
  }
  sum += power * base / (s - 1.0);
  sum -= 0.5 * power;
  double factor = 1, k = 0;
  for (double divisor : divisors) {
    factor *= s + k;
    power /= base;
    double term = factor * power / divisor;
    sum += term;
    if (std::fabs(term / sum) < epsilon)
      break;
    factor *= s + k + 1;
    power /= base;
    k += 2;
  }
  return sum;
}

BUDDY_MATH_SINGLE float buddy_special_digammaf(float x) { return digamma(x); }

BUDDY_MATH_SINGLE float buddy_special_zetaf(float s, float q) {
  return zeta(s, q);
}

/// The n-th derivative of digamma; n is a whole number from 0 on.
BUDDY_MATH_SINGLE float buddy_special_polygammaf(float n, float x) {
  if (n == 0)
    return digamma(x);
  if (n == 1)
    return trigamma(x);
  int sign;
  float factorial = std::exp(lgammaf_r(n + 1, &sign));
  return (std::fmod(n, 2.f) == 0 ? -1.f : 1.f) * factorial * zeta(n + 1, x);
}
