/*===- Array.h - arrays as generated code hands them to a library -*- C -*-===//
//
// The form of the arguments of `buddy.library_call`, which `buddy-lower-calls`
// builds on the caller's stack and functions of `libbuddy_linalg` read.
// Plain C, for 64-bit machines: all fields are eight bytes.
//
// A function gets a pointer to a `buddy_array` for each array, and numbers by
// value (int64_t, double), those that it reads before those that it writes. It
// returns nothing, raises nothing and keeps no state that shows; it may
// allocate. The last array is an i32 of rank 0, which becomes 0, or 1 if there
// was no memory or the sizes are not taken; then the others have any contents.
//
//===----------------------------------------------------------------------===*/

#ifndef BUDDY_RUNTIME_ARRAY_H
#define BUDDY_RUNTIME_ARRAY_H

#include <stdint.h>

/* Types of elements; a complex number is its real and its imaginary part. */
enum buddy_element {
  BUDDY_F32 = 0,
  BUDDY_F64 = 1,
  BUDDY_COMPLEX64 = 2,  /* of two f32 */
  BUDDY_COMPLEX128 = 3, /* of two f64 */
  BUDDY_I32 = 4,
  BUDDY_I64 = 5
};

typedef struct buddy_array {
  void *data;      /* the first element */
  int64_t element; /* enum buddy_element */
  int64_t rank;
  int64_t extents[]; /* `rank` sizes, then `rank` strides in elements */
} buddy_array;

#endif
