//===- Lapack.h - the LAPACK routines in use --------------------*- C++ -*-===//
//
// Fortran's symbols by element type: `BUDDY_LAPACK(T, potrf)` is spotrf_,
// dpotrf_, cpotrf_ or zpotrf_, of MKL, which is linked in. Matrices are
// columns; numbers are passed by address; the length of each string (one
// character here) follows after all arguments. Matrices are void pointers, so
// that one declaration serves all.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_RUNTIME_MATH_LAPACK_H
#define BUDDY_RUNTIME_MATH_LAPACK_H

#include <complex>
#include <cstddef>
#include <type_traits>

namespace buddy::math {

using Text = const char *;
using Int = const int *;
using Length = std::size_t;

// All four element types, or the real or the complex ones where the arguments
// or the names differ.
#define BUDDY_REAL_ROUTINE(NAME, ...)                                          \
  void s##NAME##_(__VA_ARGS__);                                                \
  void d##NAME##_(__VA_ARGS__);
#define BUDDY_COMPLEX_ROUTINE(NAME, ...)                                       \
  void c##NAME##_(__VA_ARGS__);                                                \
  void z##NAME##_(__VA_ARGS__);
#define BUDDY_ROUTINE(NAME, ...)                                               \
  BUDDY_REAL_ROUTINE(NAME, __VA_ARGS__)                                        \
  BUDDY_COMPLEX_ROUTINE(NAME, __VA_ARGS__)

extern "C" {
// uplo, n, a, lda, info
BUDDY_ROUTINE(potrf, Text, Int, void *, Int, int *, Length)
BUDDY_ROUTINE(potri, Text, Int, void *, Int, int *, Length)
// uplo, n, nrhs, a, lda, b, ldb, info
BUDDY_ROUTINE(potrs, Text, Int, Int, const void *, Int, void *, Int, int *,
              Length)
// m, n, a, lda, ipiv, info
BUDDY_ROUTINE(getrf, Int, Int, void *, Int, int *, int *)
// trans, n, nrhs, a, lda, ipiv, b, ldb, info
BUDDY_ROUTINE(getrs, Text, Int, Int, const void *, Int, Int, void *, Int, int *,
              Length)
// side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb
BUDDY_ROUTINE(trsm, Text, Text, Text, Text, Int, Int, const void *,
              const void *, Int, void *, Int, Length, Length, Length, Length)
// transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc
BUDDY_ROUTINE(gemm, Text, Text, Int, Int, Int, const void *, const void *, Int,
              const void *, Int, const void *, void *, Int, Length, Length)
// uplo, n, a, lda, ipiv, work, lwork, info
BUDDY_ROUTINE(sytrf, Text, Int, void *, Int, int *, void *, Int, int *, Length)
BUDDY_COMPLEX_ROUTINE(hetrf, Text, Int, void *, Int, int *, void *, Int, int *,
                      Length)
// uplo, n, nrhs, a, lda, ipiv, b, ldb, info
BUDDY_ROUTINE(sytrs, Text, Int, Int, const void *, Int, Int, void *, Int, int *,
              Length)
BUDDY_COMPLEX_ROUTINE(hetrs, Text, Int, Int, const void *, Int, Int, void *,
                      Int, int *, Length)
// m, n, a, lda, tau, work, lwork, info
BUDDY_ROUTINE(geqrf, Int, Int, void *, Int, void *, void *, Int, int *)
// m, n, k, a, lda, tau, work, lwork, info
BUDDY_REAL_ROUTINE(orgqr, Int, Int, Int, void *, Int, const void *, void *, Int,
                   int *)
BUDDY_COMPLEX_ROUTINE(ungqr, Int, Int, Int, void *, Int, const void *, void *,
                      Int, int *)
// side, trans, m, n, k, a, lda, tau, c, ldc, work, lwork, info
BUDDY_REAL_ROUTINE(ormqr, Text, Text, Int, Int, Int, const void *, Int,
                   const void *, void *, Int, void *, Int, int *, Length,
                   Length)
BUDDY_COMPLEX_ROUTINE(unmqr, Text, Text, Int, Int, Int, const void *, Int,
                      const void *, void *, Int, void *, Int, int *, Length,
                      Length)
// jobz, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, [rwork,] iwork, info
BUDDY_REAL_ROUTINE(gesdd, Text, Int, Int, void *, Int, void *, void *, Int,
                   void *, Int, void *, Int, int *, int *, Length)
BUDDY_COMPLEX_ROUTINE(gesdd, Text, Int, Int, void *, Int, void *, void *, Int,
                      void *, Int, void *, Int, void *, int *, int *, Length)
// jobz, uplo, n, a, lda, w, work, lwork, [rwork, lrwork,] iwork, liwork, info
BUDDY_REAL_ROUTINE(syevd, Text, Text, Int, void *, Int, void *, void *, Int,
                   int *, Int, int *, Length, Length)
BUDDY_COMPLEX_ROUTINE(heevd, Text, Text, Int, void *, Int, void *, void *, Int,
                      void *, Int, int *, Int, int *, Length, Length)
// jobvl, jobvr, n, a, lda, wr, wi, vl, ldvl, vr, ldvr, work, lwork, info
BUDDY_REAL_ROUTINE(geev, Text, Text, Int, void *, Int, void *, void *, void *,
                   Int, void *, Int, void *, Int, int *, Length, Length)
// jobvl, jobvr, n, a, lda, w, vl, ldvl, vr, ldvr, work, lwork, rwork, info
BUDDY_COMPLEX_ROUTINE(geev, Text, Text, Int, void *, Int, void *, void *, Int,
                      void *, Int, void *, Int, void *, int *, Length, Length)
}

#undef BUDDY_REAL_ROUTINE
#undef BUDDY_COMPLEX_ROUTINE
#undef BUDDY_ROUTINE

/// The routine for elements of type T.
template <class T, class Real, class Complex>
auto pick(Real *s, Real *d, Complex *c, Complex *z) {
  if constexpr (std::is_same_v<T, float>)
    return s;
  else if constexpr (std::is_same_v<T, double>)
    return d;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return c;
  else
    return z;
}

#define BUDDY_LAPACK(T, NAME) BUDDY_LAPACK_PAIR(T, NAME, NAME)
// Where real and complex routines have names of their own.
#define BUDDY_LAPACK_PAIR(T, REAL, COMPLEX)                                    \
  pick<T>(s##REAL##_, d##REAL##_, c##COMPLEX##_, z##COMPLEX##_)

} // namespace buddy::math

#endif
