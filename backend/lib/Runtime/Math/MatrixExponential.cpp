//===- MatrixExponential.cpp - exp of square matrices ---------------------===//
//
// By scaling and squaring with the Padé approximant of degree 13, in f64:
// N. J. Higham, The scaling and squaring method for the matrix exponential
// revisited, SIAM J. Matrix Anal. Appl. 26 (2005), algorithm 2.3.
//
//===----------------------------------------------------------------------===//

#include "Lapack.h"
#include "Views.h"

#include <cmath>
#include <limits>

using namespace buddy::math;

namespace {
/// The type of the computation.
template <class T>
using Wide = std::conditional_t<isComplex<T>, std::complex<double>, double>;

template <class T> Matrix<T> multiply(const Matrix<T> &a, const Matrix<T> &b) {
  Matrix<T> c(a.rows, b.columns);
  int lda = a.leading(), ldb = b.leading();
  T one(1), zero(0);
  BUDDY_LAPACK(T, gemm)("N", "N", &a.rows, &b.columns, &a.columns, &one,
                        a.elements.data(), &lda, b.elements.data(), &ldb, &zero,
                        c.data(), &lda, 1, 1);
  return c;
}

/// Σ factors[i] matrices[i] + diagonal I.
template <class T>
Matrix<T> combine(std::initializer_list<const Matrix<T> *> matrices,
                  std::initializer_list<double> factors, double diagonal) {
  Matrix<T> sum((*matrices.begin())->rows, (*matrices.begin())->columns);
  auto factor = factors.begin();
  for (const Matrix<T> *matrix : matrices) {
    for (size_t k = 0; k < sum.elements.size(); ++k)
      sum.elements[k] += *factor * matrix->elements[k];
    ++factor;
  }
  for (int i = 0; i < sum.rows; ++i)
    sum(i, i) += diagonal;
  return sum;
}

/// The largest sum of the sizes in a column; not finite if an element is not.
template <class T> double norm(const Matrix<T> &a) {
  double largest = 0;
  for (int j = 0; j < a.columns; ++j) {
    double sum = 0;
    for (int i = 0; i < a.rows; ++i)
      sum += std::abs(a(i, j));
    if (!std::isfinite(sum))
      return sum;
    largest = std::max(largest, sum);
  }
  return largest;
}

template <class T> Matrix<T> exponential(Matrix<T> a) {
  double size = norm(a);
  if (!std::isfinite(size)) {
    std::fill(a.elements.begin(), a.elements.end(),
              T(std::numeric_limits<double>::quiet_NaN()));
    return a;
  }
  int squarings = 0;
  for (; size > 5.371920351148152; size /= 2)
    ++squarings;
  for (T &element : a.elements)
    element *= std::ldexp(1.0, -squarings);
  Matrix<T> a2 = multiply(a, a), a4 = multiply(a2, a2), a6 = multiply(a2, a4);
  Matrix<T> high = multiply(
      a6, combine<T>({&a6, &a4, &a2}, {1.0, 16380.0, 40840800.0}, 0.0));
  Matrix<T> odd = multiply(
      a, combine<T>({&high, &a6, &a4, &a2},
                    {1.0, 33522128640.0, 10559470521600.0, 1187353796428800.0},
                    32382376266240000.0));
  high = multiply(
      a6, combine<T>({&a6, &a4, &a2}, {182.0, 960960.0, 1323241920.0}, 0.0));
  Matrix<T> even =
      combine<T>({&high, &a6, &a4, &a2},
                 {1.0, 670442572800.0, 129060195264000.0, 7771770303897600.0},
                 64764752532480000.0);
  Matrix<T> denominator = combine<T>({&even, &odd}, {1.0, -1.0}, 0.0);
  Matrix<T> result = combine<T>({&even, &odd}, {1.0, 1.0}, 0.0);
  std::vector<int> pivots(std::max(1, a.rows));
  int info = 0, lda = a.leading();
  BUDDY_LAPACK(T, getrf)(&a.rows, &a.rows, denominator.data(), &lda,
                         pivots.data(), &info);
  BUDDY_LAPACK(T, getrs)("N", &a.rows, &a.rows, denominator.data(), &lda,
                         pivots.data(), result.data(), &lda, &info, 1);
  for (int i = 0; i < squarings; ++i)
    result = multiply(result, result);
  return result;
}
} // namespace

/// exp(a); NaN where a has a number that is not finite.
BUDDY_MATH_EXPORT void buddy_linalg_matrix_exp(const buddy_array *a,
                                               buddy_array *x,
                                               buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    using W = Wide<T>;
    Batch batch(x, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      View<T> from = batch.matrix<T>(a, i), to = batch.matrix<T>(x, i);
      Matrix<W> matrix(from.rows, from.columns);
      for (int64_t c = 0; c < from.columns; ++c)
        for (int64_t r = 0; r < from.rows; ++r)
          matrix(r, c) = W(from(r, c));
      matrix = exponential(std::move(matrix));
      for (int64_t r = 0; r < to.rows; ++r)
        for (int64_t c = 0; c < to.columns; ++c)
          to(r, c) = T(matrix(r, c));
    }
  });
}
