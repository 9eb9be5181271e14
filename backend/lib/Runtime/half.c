/*===- half.c - Conversions of half precision
 * ------------------------------===//
 *
 * A target without instructions for IEEE 754 binary16 converts by calls to
 * functions that compiler-rt defines and that an older libgcc lacks. Such a
 * target links this file; names and meaning are those of LLVM's runtime
 * library (llvm/IR/RuntimeLibcalls.td). Rounding is to nearest, ties to even;
 * a NaN stays one, with the top bits of its payload, and is made quiet.
 *
 *===----------------------------------------------------------------------===*/

#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("hidden")))

EXPORT float __extendhfsf2(_Float16 half);
EXPORT _Float16 __truncsfhf2(float value);
EXPORT _Float16 __truncdfhf2(double value);

float __extendhfsf2(_Float16 half) {
  uint16_t h;
  memcpy(&h, &half, sizeof(h));
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t exponent = h >> 10 & 0x1f, fraction = h & 0x3ff, bits;
  if (exponent == 0x1f) { /* infinity, NaN */
    bits = 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0);
  } else if (exponent) {
    bits = (exponent + 127 - 15) << 23 | fraction << 13;
  } else if (fraction) { /* A subnormal is normal in binary32. */
    const int shift = __builtin_clz(fraction) - 21;
    bits = (uint32_t)(127 - 14 - shift) << 23 |
           (fraction << (13 + shift) & 0x7fffff);
  } else {
    bits = 0;
  }
  bits |= sign;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* A double is wide enough for both: each float is one, exactly. */
_Float16 __truncdfhf2(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
  const int32_t exponent = (int32_t)(bits >> 52 & 0x7ff) - 1023;
  const uint64_t fraction = bits & 0xfffffffffffff;
  uint16_t h;
  if (exponent == 1024) { /* infinity, NaN */
    h = (uint16_t)(0x7c00 | (fraction ? 0x200 | fraction >> 42 : 0));
  } else if (exponent >= 16) {
    h = 0x7c00;
  } else if (exponent < -25) { /* less than half of the smallest subnormal */
    h = 0;
  } else {
    /* Below 2^-14 the significand loses further bits to be a subnormal. */
    const int32_t dropped = exponent >= -14 ? 42 : 42 - 14 - exponent;
    const uint64_t significand = fraction | UINT64_C(1) << 52;
    const uint64_t rest = significand & ((UINT64_C(1) << dropped) - 1);
    const uint64_t tie = UINT64_C(1) << (dropped - 1);
    uint64_t kept = significand >> dropped;
    kept += rest > tie || (rest == tie && (kept & 1));
    /* The leading one adds one to the exponent, and so does a carry. */
    h = (uint16_t)(exponent >= -14 ? kept + ((uint64_t)(exponent + 14) << 10)
                                   : kept);
  }
  h |= sign;
  _Float16 half;
  memcpy(&half, &h, sizeof(half));
  return half;
}

_Float16 __truncsfhf2(float value) { return __truncdfhf2(value); }

EXPORT __bf16 __truncsfbf2(float value);
EXPORT __bf16 __truncdfbf2(double value);

__bf16 __truncsfbf2(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000)
    bits |= 0x400000; /* so that a payload of low bits does not become zero */
  else
    bits +=
        0x7fff + (bits >> 16 & 1); /* A carry makes infinity of the largest. */
  const uint16_t b = (uint16_t)(bits >> 16);
  __bf16 brain;
  memcpy(&brain, &b, sizeof(brain));
  return brain;
}

__bf16 __truncdfbf2(double value) {
  /* Rounded to odd first, which a second rounding cannot tell from the exact
   * value (Boldo and Melquiond, "When double rounding is odd", 2005). */
  float rounded = (float)value;
  const double back = rounded;
  uint32_t bits;
  memcpy(&bits, &rounded, sizeof(bits));
  if (back != value && value == value && !(bits & 1))
    bits += (back < value) == (value > 0) ? 1 : -1;
  memcpy(&rounded, &bits, sizeof(rounded));
  return __truncsfbf2(rounded);
}
