//===- Special.h - special functions that generated code calls --*- C++ -*-===//
//
// C functions of f64 numbers, `buddy_special_<name>`, for operators whose
// elements are no loop worth vectorizing. Callers convert other types. None of
// them raises an exception, sets errno that anybody reads, or keeps a state.
// Outside of a function's domain the result is what PyTorch's CPU kernel
// gives, NaN or an infinity.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_RUNTIME_MATH_SPECIAL_H
#define BUDDY_RUNTIME_MATH_SPECIAL_H

#define BUDDY_MATH_EXPORT extern "C" __attribute__((visibility("default")))

#endif
