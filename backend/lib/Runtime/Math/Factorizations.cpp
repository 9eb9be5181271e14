//===- Factorizations.cpp - triangular factorizations and solving ---------===//
//
// Cholesky, LU and LDL factorizations of the matrices in the last two
// dimensions, and what is computed from them. Arrays have f32, f64, complex64
// or complex128 elements, pivots and `info` i32: 0, or as LAPACK numbers it the
// row where a factorization failed. Where an argument has fewer leading
// dimensions than the result, or such of size 1, it is repeated. Pivots are
// LAPACK's, rows from 1. The last argument of each function is `failed`
// (Views.h).
//
//===----------------------------------------------------------------------===//

#include "Lapack.h"
#include "Views.h"

using namespace buddy::math;

namespace {
/// `info` keeps positive numbers only: negative ones are our own mistakes.
void setInfo(const Batch &batch, const buddy_array *info, int64_t index,
             int value) {
  batch.number<int32_t>(info, index) = value;
}

std::vector<int> pivotsOf(View<int32_t> pivots) {
  std::vector<int> result(pivots.rows);
  for (int64_t i = 0; i < pivots.rows; ++i)
    result[i] = pivots(i, 0);
  return result;
}

template <class T> int factorize(Matrix<T> &a, std::vector<int> &pivots) {
  int info = 0, lda = a.leading();
  pivots.resize(std::min(a.rows, a.columns));
  BUDDY_LAPACK(T, getrf)(&a.rows, &a.columns, a.data(), &lda, pivots.data(),
                         &info);
  return info;
}

template <class T>
void solve(const char *transpose, Matrix<T> &lu, const std::vector<int> &pivots,
           Matrix<T> &b) {
  int info = 0, lda = lu.leading(), ldb = b.leading();
  BUDDY_LAPACK(T, getrs)(transpose, &lu.rows, &b.columns, lu.data(), &lda,
                         pivots.data(), b.data(), &ldb, &info, 1);
}

bool isOdd(View<int32_t> pivots) {
  bool odd = false;
  for (int64_t i = 0; i < pivots.rows; ++i)
    odd ^= pivots(i, 0) != i + 1;
  return odd;
}
} // namespace

/// The triangle `l` with l lᴴ = a, or lᴴ l = a if `upper`, from that triangle
/// of `a`.
BUDDY_MATH_EXPORT void buddy_linalg_cholesky(const buddy_array *a,
                                             int64_t upper, buddy_array *l,
                                             buddy_array *info,
                                             buddy_array *failed) {
  dispatch(l, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(l, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      matrix.keepTriangle(upper);
      int status = 0, lda = matrix.leading();
      BUDDY_LAPACK(T, potrf)(upper ? "U" : "L", &matrix.rows, matrix.data(),
                             &lda, &status, 1);
      matrix.store(batch.matrix<T>(l, i));
      setInfo(batch, info, i, status);
    }
  });
}

/// x with a x = b, from the Cholesky triangle of a.
BUDDY_MATH_EXPORT void buddy_linalg_cholesky_solve(const buddy_array *b,
                                                   const buddy_array *l,
                                                   int64_t upper,
                                                   buddy_array *x,
                                                   buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(x, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> triangle(batch.matrix<T>(l, i)), right(batch.matrix<T>(b, i));
      int status = 0, lda = triangle.leading(), ldb = right.leading();
      BUDDY_LAPACK(T, potrs)(upper ? "U" : "L", &triangle.rows, &right.columns,
                             triangle.data(), &lda, right.data(), &ldb, &status,
                             1);
      right.store(batch.matrix<T>(x, i));
    }
  });
}

/// The inverse of a, from its Cholesky triangle; `info` tells of a zero on the
/// diagonal.
BUDDY_MATH_EXPORT void buddy_linalg_cholesky_inverse(const buddy_array *l,
                                                     int64_t upper,
                                                     buddy_array *x,
                                                     buddy_array *info,
                                                     buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(x, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(l, i));
      int status = 0, lda = matrix.leading();
      BUDDY_LAPACK(T, potri)(upper ? "U" : "L", &matrix.rows, matrix.data(),
                             &lda, &status, 1);
      for (int64_t c = 0; c < matrix.columns; ++c)
        for (int64_t r = c + 1; r < matrix.rows; ++r)
          upper ? matrix(r, c) = conjugate(matrix(c, r))
                : matrix(c, r) = conjugate(matrix(r, c));
      matrix.store(batch.matrix<T>(x, i));
      setInfo(batch, info, i, status);
    }
  });
}

/// a, or its transpose, as packed triangles and the swaps of rows.
BUDDY_MATH_EXPORT void
buddy_linalg_lu_factor(const buddy_array *a, int64_t transposed,
                       buddy_array *lu, buddy_array *pivots, buddy_array *info,
                       buddy_array *failed) {
  dispatch(lu, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(lu, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      View<T> source = batch.matrix<T>(a, i);
      Matrix<T> matrix(transposed ? source.transposed() : source);
      std::vector<int> swaps;
      setInfo(batch, info, i, factorize(matrix, swaps));
      matrix.store(batch.matrix<T>(lu, i));
      View<int32_t> to = batch.vector<int32_t>(pivots, i);
      for (int64_t k = 0; k < to.rows; ++k)
        to(k, 0) = swaps[k];
    }
  });
}

/// p l u = a, with a matrix of a permutation p and l of a unit diagonal.
BUDDY_MATH_EXPORT void buddy_linalg_lu(const buddy_array *a, buddy_array *p,
                                       buddy_array *l, buddy_array *u,
                                       buddy_array *failed) {
  dispatch(l, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(l, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      std::vector<int> swaps;
      factorize(matrix, swaps);
      View<T> lower = batch.matrix<T>(l, i), upper = batch.matrix<T>(u, i);
      for (int64_t r = 0; r < lower.rows; ++r)
        for (int64_t c = 0; c < lower.columns; ++c)
          lower(r, c) = r > c ? matrix(r, c) : T(r == c);
      for (int64_t r = 0; r < upper.rows; ++r)
        for (int64_t c = 0; c < upper.columns; ++c)
          upper(r, c) = r <= c ? matrix(r, c) : T(0);
      // Row r of p l is the row of l that the swaps brought there.
      std::vector<int64_t> order(matrix.rows);
      for (int64_t r = 0; r < matrix.rows; ++r)
        order[r] = r;
      for (size_t k = 0; k < swaps.size(); ++k)
        std::swap(order[k], order[swaps[k] - 1]);
      View<T> permutation = batch.matrix<T>(p, i);
      for (int64_t r = 0; r < permutation.rows; ++r)
        for (int64_t c = 0; c < permutation.columns; ++c)
          permutation(r, c) = T(order[c] == r);
    }
  });
}

/// x with a x = b (x a = b if not `left`), or with aᴴ for a if `adjoint`, from
/// the packed triangles of a.
BUDDY_MATH_EXPORT void buddy_linalg_lu_solve(const buddy_array *lu,
                                             const buddy_array *pivots,
                                             const buddy_array *b, int64_t left,
                                             int64_t adjoint, buddy_array *x,
                                             buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(x, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(lu, i));
      std::vector<int> swaps = pivotsOf(batch.vector<int32_t>(pivots, i));
      for (int &row : swaps) // LAPACK does not look whether they are rows.
        row = std::clamp(row, 1, matrix.leading());
      View<T> from = batch.matrix<T>(b, i), to = batch.matrix<T>(x, i);
      if (left) {
        Matrix<T> right(from);
        solve(adjoint ? "C" : "N", matrix, swaps, right);
        right.store(to);
      } else { // aᴴ xᴴ = bᴴ
        Matrix<T> right(from.transposed(), /*conjugated=*/true);
        solve(adjoint ? "N" : "C", matrix, swaps, right);
        right.store(to.transposed(), /*conjugated=*/true);
      }
    }
  });
}

/// The inverse, by its LU factorization.
BUDDY_MATH_EXPORT void buddy_linalg_inverse(const buddy_array *a,
                                            buddy_array *x, buddy_array *info,
                                            buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(x, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      std::vector<int> swaps;
      setInfo(batch, info, i, factorize(matrix, swaps));
      Matrix<T> result = Matrix<T>::identity(matrix.rows);
      solve("N", matrix, swaps, result);
      result.store(batch.matrix<T>(x, i));
    }
  });
}

/// The determinant, from packed triangles.
BUDDY_MATH_EXPORT void buddy_linalg_det(const buddy_array *lu,
                                        const buddy_array *pivots,
                                        buddy_array *det, buddy_array *failed) {
  dispatch(det, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(det, 0);
    for (int64_t i = 0; i < batch.count; ++i) {
      View<T> matrix = batch.matrix<T>(lu, i);
      T product(isOdd(batch.vector<int32_t>(pivots, i)) ? -1 : 1);
      for (int64_t k = 0; k < matrix.rows; ++k)
        product *= matrix(k, k);
      batch.number<T>(det, i) = product;
    }
  });
}

/// The determinant as its sign (of size 1, or 0) and the logarithm of its
/// size, from packed triangles.
BUDDY_MATH_EXPORT void buddy_linalg_slogdet(const buddy_array *lu,
                                            const buddy_array *pivots,
                                            buddy_array *sign,
                                            buddy_array *logarithm,
                                            buddy_array *failed) {
  dispatch(sign, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(sign, 0);
    for (int64_t i = 0; i < batch.count; ++i) {
      View<T> matrix = batch.matrix<T>(lu, i);
      T product(isOdd(batch.vector<int32_t>(pivots, i)) ? -1 : 1);
      Real<T> sum = 0;
      for (int64_t k = 0; k < matrix.rows; ++k) {
        T element = matrix(k, k);
        Real<T> size = std::abs(element);
        product *= size == 0 ? T(0) : element / size;
        sum += std::log(size);
      }
      batch.number<T>(sign, i) = product;
      batch.number<Real<T>>(logarithm, i) = sum;
    }
  });
}

/// x with op(a) x = b (x op(a) = b if not `left`) for a triangle of a, without
/// looking at the other one; op is 0: none, 1: transpose, 2: adjoint. A
/// `unit` diagonal is not looked at either.
BUDDY_MATH_EXPORT void buddy_linalg_solve_triangular(
    const buddy_array *a, const buddy_array *b, int64_t upper, int64_t left,
    int64_t op, int64_t unit, buddy_array *x, buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(x, 2);
    const char *transposes[] = {"N", "T", "C"};
    T one(1);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> triangle(batch.matrix<T>(a, i)), right(batch.matrix<T>(b, i));
      int lda = triangle.leading(), ldb = right.leading();
      BUDDY_LAPACK(T, trsm)(left ? "L" : "R", upper ? "U" : "L", transposes[op],
                            unit ? "U" : "N", &right.rows, &right.columns, &one,
                            triangle.data(), &lda, right.data(), &ldb, 1, 1, 1,
                            1);
      right.store(batch.matrix<T>(x, i));
    }
  });
}

/// The packed factors of a symmetric (or Hermitian) matrix, from its lower
/// triangle, with LAPACK's pivots of blocks.
BUDDY_MATH_EXPORT void
buddy_linalg_ldl_factor(const buddy_array *a, int64_t hermitian,
                        buddy_array *ld, buddy_array *pivots, buddy_array *info,
                        buddy_array *failed) {
  dispatch(ld, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(ld, 2);
    auto routine = BUDDY_LAPACK(T, sytrf);
    if constexpr (isComplex<T>)
      if (hermitian)
        routine = BUDDY_LAPACK_PAIR(T, sytrf, hetrf);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      matrix.keepTriangle(/*upper=*/false);
      int status = 0, lda = matrix.leading();
      std::vector<int> swaps(matrix.rows);
      withWorkspace<T>([&](T *work, int *length) {
        routine("L", &matrix.rows, matrix.data(), &lda, swaps.data(), work,
                length, &status, 1);
      });
      matrix.store(batch.matrix<T>(ld, i));
      setInfo(batch, info, i, status);
      View<int32_t> to = batch.vector<int32_t>(pivots, i);
      for (int64_t k = 0; k < to.rows; ++k)
        to(k, 0) = swaps[k];
    }
  });
}

/// x with a x = b, from the packed factors of a.
BUDDY_MATH_EXPORT void buddy_linalg_ldl_solve(const buddy_array *ld,
                                              const buddy_array *pivots,
                                              const buddy_array *b,
                                              int64_t hermitian, buddy_array *x,
                                              buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(x, 2);
    auto routine = BUDDY_LAPACK(T, sytrs);
    if constexpr (isComplex<T>)
      if (hermitian)
        routine = BUDDY_LAPACK_PAIR(T, sytrs, hetrs);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(ld, i)), right(batch.matrix<T>(b, i));
      std::vector<int> swaps = pivotsOf(batch.vector<int32_t>(pivots, i));
      int status = 0, lda = matrix.leading(), ldb = right.leading();
      routine("L", &matrix.rows, &right.columns, matrix.data(), &lda,
              swaps.data(), right.data(), &ldb, &status, 1);
      right.store(batch.matrix<T>(x, i));
    }
  });
}
