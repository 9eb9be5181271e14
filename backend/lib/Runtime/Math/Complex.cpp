//===- Complex.cpp - functions of complex numbers -------------------------===//
//
// `buddy_complex_<name>(re, im, part)`: the real part (`part` 0) or the
// imaginary one (1) of a function of re + im i, as the C++ library computes it
// in f64; with two numbers, (re, im, re, im, part).
//
//===----------------------------------------------------------------------===//

#include "Special.h"

#include <cmath>
#include <complex>
#include <cstdint>

namespace {
using Complex = std::complex<double>;

double partOf(Complex z, int64_t part) { return part ? z.imag() : z.real(); }

/// exp(z) - 1 without cancellation.
Complex expm1(Complex z) {
  double half = std::sin(z.imag() / 2);
  double real = std::expm1(z.real());
  return {real * std::cos(z.imag()) - 2 * half * half,
          (real + 1) * std::sin(z.imag())};
}

/// log(1 + z) without cancellation.
Complex log1p(Complex z) {
  double x = z.real(), y = z.imag();
  if (!(std::abs(z) < 0.5))
    return std::log(1.0 + z);
  return {std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x)};
}

/// What any power to the exponent 0 is, and what PyTorch's kernel takes apart.
Complex power(Complex base, Complex exponent) {
  if (exponent == 0.0)
    return 1;
  if (exponent == 2.0)
    return base * base;
  if (exponent == 0.5)
    return std::sqrt(base);
  return std::pow(base, exponent);
}
} // namespace

#define BUDDY_COMPLEX_FUNCTION(NAME, VALUE)                                    \
  BUDDY_MATH_EXPORT double buddy_complex_##NAME(double re, double im,          \
                                                int64_t part) {                \
    Complex z(re, im);                                                         \
    return partOf(VALUE, part);                                                \
  }

BUDDY_COMPLEX_FUNCTION(exp, std::exp(z))
BUDDY_COMPLEX_FUNCTION(exp2, std::exp(z *std::log(2.0)))
BUDDY_COMPLEX_FUNCTION(expm1, expm1(z))
BUDDY_COMPLEX_FUNCTION(log, std::log(z))
BUDDY_COMPLEX_FUNCTION(log2, std::log(z) / std::log(2.0))
BUDDY_COMPLEX_FUNCTION(log10, std::log10(z))
BUDDY_COMPLEX_FUNCTION(log1p, log1p(z))
BUDDY_COMPLEX_FUNCTION(sqrt, std::sqrt(z))
BUDDY_COMPLEX_FUNCTION(rsqrt, 1.0 / std::sqrt(z))
BUDDY_COMPLEX_FUNCTION(sin, std::sin(z))
BUDDY_COMPLEX_FUNCTION(cos, std::cos(z))
BUDDY_COMPLEX_FUNCTION(tan, std::tan(z))
BUDDY_COMPLEX_FUNCTION(asin, std::asin(z))
BUDDY_COMPLEX_FUNCTION(acos, std::acos(z))
BUDDY_COMPLEX_FUNCTION(atan, std::atan(z))
BUDDY_COMPLEX_FUNCTION(sinh, std::sinh(z))
BUDDY_COMPLEX_FUNCTION(cosh, std::cosh(z))
BUDDY_COMPLEX_FUNCTION(tanh, std::tanh(z))
BUDDY_COMPLEX_FUNCTION(asinh, std::asinh(z))
BUDDY_COMPLEX_FUNCTION(acosh, std::acosh(z))
BUDDY_COMPLEX_FUNCTION(atanh, std::atanh(z))
BUDDY_COMPLEX_FUNCTION(sigmoid, 1.0 / (1.0 + std::exp(-z)))
BUDDY_COMPLEX_FUNCTION(silu, z / (1.0 + std::exp(-z)))

BUDDY_MATH_EXPORT double buddy_complex_pow(double re, double im,
                                           double exponentRe, double exponentIm,
                                           int64_t part) {
  return partOf(power({re, im}, {exponentRe, exponentIm}), part);
}
