//===- Fortran.cpp - what LAPACK wants of its run-time library ------------===//
//
// The two functions that the routines in use call beside the C library, so that
// no Fortran run-time library is linked. libgfortran's archive is no
// position-independent code, and bundles should not have to carry one more
// library.
//
//===----------------------------------------------------------------------===//

#include <cstddef>
#include <cstring>

/// `a // b` as characters of a fixed number, filled up with blanks.
extern "C" __attribute__((visibility("hidden"))) void
_gfortran_concat_string(std::size_t size, char *to, std::size_t sizeA,
                        const char *a, std::size_t sizeB, const char *b) {
  std::size_t first = sizeA < size ? sizeA : size;
  std::size_t second = sizeB < size - first ? sizeB : size - first;
  std::memmove(to, a, first);
  std::memmove(to + first, b, second);
  std::memset(to + first + second, ' ', size - first - second);
}

/// LAPACK's report of a wrong argument, which would end the process. None is
/// wrong here but for lack of our own care; `info` is then negative.
extern "C" __attribute__((visibility("hidden"))) void
xerbla_(const char *, const int *, std::size_t) {}
