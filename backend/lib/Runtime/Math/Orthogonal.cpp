//===- Orthogonal.cpp - Householder reflectors and QR ---------------------===//
//
// Of the matrices in the last two dimensions, f32, f64, complex64 or
// complex128. Reflectors are LAPACK's: vectors below the diagonal, factors
// `tau`. Q and R are LAPACK's too, the diagonal of R of any sign.
//
//===----------------------------------------------------------------------===//

#include "Lapack.h"
#include "Views.h"

using namespace buddy::math;

namespace {
template <class T> void reflect(Matrix<T> &a, std::vector<T> &tau) {
  int info = 0, lda = a.leading();
  tau.assign(std::max(1, std::min(a.rows, a.columns)), T(0));
  withWorkspace<T>([&](T *work, int *length) {
    BUDDY_LAPACK(T, geqrf)(&a.rows, &a.columns, a.data(), &lda, tau.data(),
                           work, length, &info);
  });
}

/// The first columns of the product of `count` reflectors, in place.
template <class T>
void formProduct(Matrix<T> &a, const std::vector<T> &tau, int count) {
  int info = 0, lda = a.leading();
  withWorkspace<T>([&](T *work, int *length) {
    BUDDY_LAPACK_PAIR(T, orgqr, ungqr)(&a.rows, &a.columns, &count, a.data(),
                                       &lda, tau.data(), work, length, &info);
  });
}

template <class T> std::vector<T> factorsOf(View<T> tau) {
  std::vector<T> result(std::max<int64_t>(1, tau.rows));
  for (int64_t k = 0; k < tau.rows; ++k)
    result[k] = tau(k, 0);
  return result;
}
} // namespace

/// a as packed R and reflectors, and their factors.
BUDDY_MATH_EXPORT void buddy_linalg_geqrf(const buddy_array *a,
                                          buddy_array *packed, buddy_array *tau,
                                          buddy_array *failed) {
  dispatch(packed, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(packed, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      std::vector<T> factors;
      reflect(matrix, factors);
      matrix.store(batch.matrix<T>(packed, i));
      View<T> to = batch.vector<T>(tau, i);
      for (int64_t k = 0; k < to.rows; ++k)
        to(k, 0) = factors[k];
    }
  });
}

/// q r = a; the sizes of q and r say how many columns of q, and rows of r,
/// there are. An empty q is not computed.
BUDDY_MATH_EXPORT void buddy_linalg_qr(const buddy_array *a, buddy_array *q,
                                       buddy_array *r, buddy_array *failed) {
  dispatch(r, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(r, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      std::vector<T> factors;
      reflect(matrix, factors);
      View<T> triangle = batch.matrix<T>(r, i);
      for (int64_t row = 0; row < triangle.rows; ++row)
        for (int64_t column = 0; column < triangle.columns; ++column)
          triangle(row, column) =
              row <= column && row < matrix.rows ? matrix(row, column) : T(0);
      if (q->rank < 2)
        continue;
      View<T> to = batch.matrix<T>(q, i);
      Matrix<T> product(to.rows, to.columns);
      int count = std::min(matrix.rows, matrix.columns);
      for (int64_t column = 0; column < std::min(count, product.columns);
           ++column)
        for (int64_t row = 0; row < product.rows; ++row)
          product(row, column) = matrix(row, column);
      formProduct(product, factors, std::min(count, product.columns));
      product.store(to);
    }
  });
}

/// The first columns of a product of reflectors.
BUDDY_MATH_EXPORT void
buddy_linalg_householder_product(const buddy_array *packed,
                                 const buddy_array *tau, buddy_array *q,
                                 buddy_array *failed) {
  dispatch(q, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(q, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(packed, i));
      View<T> factors = batch.vector<T>(tau, i);
      formProduct(matrix, factorsOf(factors), factors.rows);
      matrix.store(batch.matrix<T>(q, i));
    }
  });
}

/// op(q) c (c op(q) if not `left`) for the product q of reflectors, op the
/// adjoint if `adjoint`.
BUDDY_MATH_EXPORT void buddy_linalg_ormqr(const buddy_array *packed,
                                          const buddy_array *tau,
                                          const buddy_array *c, int64_t left,
                                          int64_t adjoint, buddy_array *product,
                                          buddy_array *failed) {
  dispatch(product, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(product, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(packed, i)),
          other(batch.matrix<T>(c, i));
      View<T> factors = batch.vector<T>(tau, i);
      std::vector<T> scales = factorsOf(factors);
      int info = 0, count = factors.rows, lda = matrix.leading(),
          ldc = other.leading();
      const char *op = !adjoint ? "N" : isComplex<T> ? "C" : "T";
      withWorkspace<T>([&](T *work, int *length) {
        BUDDY_LAPACK_PAIR(T, ormqr, unmqr)(
            left ? "L" : "R", op, &other.rows, &other.columns, &count,
            matrix.data(), &lda, scales.data(), other.data(), &ldc, work,
            length, &info, 1, 1);
      });
      other.store(batch.matrix<T>(product, i));
    }
  });
}
