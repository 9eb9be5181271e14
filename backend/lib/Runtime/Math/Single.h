//===- Single.h - how special functions of f32 are evaluated ----*- C++ -*-===//
//
// C functions of f32 numbers, `buddy_special_<name>f`, that give the bits of
// PyTorch's CPU kernels (2.13, aten/src/ATen/native/Math.h). Those compute in
// f32 by the formulas of the Cephes Mathematical Library, so that a function
// more exact than they are would never equal them. What a compiler with FMA
// instructions makes of the formulas is written out here: products that it adds
// in one rounding are `std::fma`, and these files are compiled with
// -ffp-contract=off, so that the bits depend on neither compiler nor machine.
// Elementary functions are the C library's, as they are PyTorch's.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_RUNTIME_MATH_SINGLE_H
#define BUDDY_RUNTIME_MATH_SINGLE_H

#include "Special.h"

#include <cmath>
#include <cstddef>
#include <limits>

/// Where the instruction set is known at run time only, `std::fma` is an
/// instruction or, with the same bits, a call. Clones take no attribute of
/// visibility: a file with them pushes the default one.
#if defined(__x86_64__) && !defined(__FMA__)
#define BUDDY_MATH_SINGLE                                                      \
  extern "C" __attribute__((target_clones("fma", "default")))
#else
#define BUDDY_MATH_SINGLE BUDDY_MATH_EXPORT
#endif
/// For what those functions share: it is compiled for their instruction set.
#define BUDDY_MATH_INLINE __attribute__((always_inline)) inline

namespace buddy {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kPi = 3.14159265f;

/// A polynomial, the coefficient of the highest power first. An infinite x
/// gives NaN, whatever the coefficients.
template <size_t N>
BUDDY_MATH_INLINE float polynomial(float x, const float (&coefficients)[N]) {
  float value = 0;
  for (float coefficient : coefficients)
    value = std::fma(value, x, coefficient);
  return value;
}

template <size_t N, size_t M>
BUDDY_MATH_INLINE float quotient(float x, const float (&numerator)[N],
                                 const float (&denominator)[M]) {
  return polynomial(x, numerator) / polynomial(x, denominator);
}

/// The sum of coefficient times Chebyshev polynomial T of x / 2, the last term
/// first and the one of degree 0 halved, by Clenshaw's recurrence. The first
/// `skip` terms are left out.
template <size_t N>
BUDDY_MATH_INLINE float series(float x, const float (&coefficients)[N],
                               size_t skip = 0) {
  float afterNext = 0, next = coefficients[skip];
  float value = std::fma(x, next, coefficients[skip + 1]);
  for (size_t i = skip + 2; i < N; ++i) {
    afterNext = next;
    next = value;
    value = std::fma(x, next, -afterNext) + coefficients[i];
  }
  return 0.5f * (value - afterNext);
}

} // namespace buddy

#endif
