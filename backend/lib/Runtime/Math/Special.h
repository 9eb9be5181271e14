//===- Special.h - special functions that generated code calls --*- C++ -*-===//
//
// C functions of f64 numbers, `buddy_special_<name>`, for operators whose
// elements are no loop worth vectorizing. Functions of f32 with an f after the
// name are in Single*.cpp; callers convert other types. None of them raises an
// exception, sets errno that anybody reads, or keeps a state. Outside of a
// function's domain the result is what PyTorch's CPU kernel gives, NaN or an
// infinity.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_RUNTIME_MATH_SPECIAL_H
#define BUDDY_RUNTIME_MATH_SPECIAL_H

#define BUDDY_MATH_EXPORT extern "C" __attribute__((visibility("default")))

/// exp(x^2) erfc(x), which the function of f32 calls.
BUDDY_MATH_EXPORT double buddy_special_erfcx(double x);

#endif
