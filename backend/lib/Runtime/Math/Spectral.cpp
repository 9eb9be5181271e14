//===- Spectral.cpp - singular values and eigenvalues ---------------------===//
//
// Of the matrices in the last two dimensions, f32, f64, complex64 or
// complex128. Vectors are unique up to a sign or a phase, which is LAPACK's.
// `info`, i32, is not 0 where the algorithm did not converge or met a number
// that is not finite.
//
//===----------------------------------------------------------------------===//

#include "Lapack.h"
#include "Views.h"

using namespace buddy::math;

namespace {
/// Memory for LAPACK's real and integer work spaces.
template <class T> struct Scratch {
  Scratch(int64_t reals, int64_t integers)
      : reals(std::max<int64_t>(1, reals)),
        integers(std::max<int64_t>(1, integers)) {}
  std::vector<Real<T>> reals;
  std::vector<int> integers;
};

template <class T>
int svd(Matrix<T> &a, const char *job, std::vector<Real<T>> &s, Matrix<T> &u,
        Matrix<T> &v) {
  int64_t small = std::min(a.rows, a.columns),
          large = std::max(a.rows, a.columns);
  s.resize(std::max<int64_t>(1, small));
  // The documented bound of rwork, with the one for values alone in it.
  int64_t reals = isComplex<T>
                      ? std::max(5 * small * small + 7 * small,
                                 2 * large * small + 2 * small * small + small)
                      : 0;
  Scratch<T> scratch(reals, 8 * small);
  int info = 0, lda = a.leading(), ldu = u.leading(), ldv = v.leading();
  withWorkspace<T>([&](T *work, int *length) {
    if constexpr (isComplex<T>)
      BUDDY_LAPACK(T, gesdd)(job, &a.rows, &a.columns, a.data(), &lda, s.data(),
                             u.data(), &ldu, v.data(), &ldv, work, length,
                             scratch.reals.data(), scratch.integers.data(),
                             &info, 1);
    else
      BUDDY_LAPACK(T, gesdd)(job, &a.rows, &a.columns, a.data(), &lda, s.data(),
                             u.data(), &ldu, v.data(), &ldv, work, length,
                             scratch.integers.data(), &info, 1);
  });
  return info;
}

template <class T>
int eigh(Matrix<T> &a, bool vectors, bool upper, std::vector<Real<T>> &w) {
  int64_t n = a.rows;
  w.resize(std::max<int64_t>(1, n));
  // The documented bounds.
  Scratch<T> scratch(1 + 5 * n + 2 * n * n, 3 + 5 * n);
  const char *job = vectors ? "V" : "N", *triangle = upper ? "U" : "L";
  int info = 0, lda = a.leading(), reals = scratch.reals.size(),
      integers = scratch.integers.size();
  withWorkspace<T>([&](T *work, int *length) {
    if constexpr (isComplex<T>)
      BUDDY_LAPACK_PAIR(T, syevd,
                        heevd)(job, triangle, &a.rows, a.data(), &lda, w.data(),
                               work, length, scratch.reals.data(), &reals,
                               scratch.integers.data(), &integers, &info, 1, 1);
    else
      BUDDY_LAPACK_PAIR(T, syevd, heevd)(
          job, triangle, &a.rows, a.data(), &lda, w.data(), work, length,
          scratch.integers.data(), &integers, &info, 1, 1);
  });
  return info;
}

/// Eigenvalues and, if `vectors` has a size, eigenvectors of a.
template <class T>
int eig(Matrix<T> &a, std::vector<std::complex<Real<T>>> &values,
        Matrix<std::complex<Real<T>>> &vectors) {
  using C = std::complex<Real<T>>;
  int n = a.rows, info = 0, lda = a.leading(), one = 1;
  const char *job = vectors.rows ? "V" : "N";
  values.resize(std::max(1, n));
  int ldv = vectors.leading();
  if constexpr (isComplex<T>) {
    Scratch<T> scratch(2 * n, 0);
    withWorkspace<T>([&](T *work, int *length) {
      BUDDY_LAPACK(T, geev)("N", job, &n, a.data(), &lda, values.data(),
                            nullptr, &one, vectors.data(), &ldv, work, length,
                            scratch.reals.data(), &info, 1, 1);
    });
  } else {
    std::vector<T> real(values.size()), imaginary(values.size());
    Matrix<T> packed(vectors.rows, vectors.columns);
    withWorkspace<T>([&](T *work, int *length) {
      BUDDY_LAPACK(T, geev)("N", job, &n, a.data(), &lda, real.data(),
                            imaginary.data(), nullptr, &one, packed.data(),
                            &ldv, work, length, &info, 1, 1);
    });
    for (int j = 0; j < n; ++j)
      values[j] = C(real[j], imaginary[j]);
    // A pair of conjugates has the parts of the first one's vector as columns.
    for (int j = 0; j < vectors.columns; ++j) {
      bool isPair = imaginary[j] != 0 && j + 1 < n;
      for (int i = 0; i < n; ++i) {
        T x = packed(i, j), y = isPair ? packed(i, j + 1) : T(0);
        vectors(i, j) = C(x, y);
        if (isPair)
          vectors(i, j + 1) = C(x, -y);
      }
      j += isPair;
    }
  }
  return info;
}

template <class From, class To>
void storeVector(const std::vector<From> &from, View<To> to) {
  for (int64_t k = 0; k < to.rows; ++k)
    to(k, 0) = from[k];
}
} // namespace

/// u diag(s) v = a, s descending. If `vectors`, the sizes of u and v say
/// whether all of them are wanted; else u and v are not written.
BUDDY_MATH_EXPORT void buddy_linalg_svd(const buddy_array *a, int64_t vectors,
                                        buddy_array *u, buddy_array *s,
                                        buddy_array *v, buddy_array *info,
                                        buddy_array *failed) {
  dispatch(a, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(a, 2);
    int64_t rows = sizeOf(a, -2), columns = sizeOf(a, -1),
            small = std::min(rows, columns);
    bool full = vectors && (sizeOf(u, -1) != small || sizeOf(v, -2) != small);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      int64_t kept = full ? std::max(rows, columns) : small;
      Matrix<T> left(vectors ? rows : 0, std::min(kept, rows)),
          right(vectors ? std::min(kept, columns) : 0, columns);
      std::vector<Real<T>> values;
      int status = 0;
      if (small > 0) {
        status = svd(matrix,
                     !vectors ? "N"
                     : full   ? "A"
                              : "S",
                     values, left, right);
      } else if (full) {
        left = Matrix<T>::identity(rows);
        right = Matrix<T>::identity(columns);
      }
      storeVector(values, batch.vector<Real<T>>(s, i));
      if (vectors) {
        left.store(batch.matrix<T>(u, i));
        right.store(batch.matrix<T>(v, i));
      }
      batch.number<int32_t>(info, i) = status;
    }
  });
}

/// v diag(w) vᴴ = a for a Hermitian matrix of which one triangle is read, w
/// ascending; v is not written unless `vectors`.
BUDDY_MATH_EXPORT void buddy_linalg_eigh(const buddy_array *a, int64_t upper,
                                         int64_t vectors, buddy_array *w,
                                         buddy_array *v, buddy_array *info,
                                         buddy_array *failed) {
  dispatch(a, failed, [&](auto zero) {
    using T = decltype(zero);
    Batch batch(a, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      std::vector<Real<T>> values;
      batch.number<int32_t>(info, i) = eigh(matrix, vectors, upper, values);
      storeVector(values, batch.vector<Real<T>>(w, i));
      if (vectors)
        matrix.store(batch.matrix<T>(v, i));
    }
  });
}

/// a v = v diag(w) for any square matrix; v of length 1; v is not written
/// unless `vectors`.
BUDDY_MATH_EXPORT void buddy_linalg_eig(const buddy_array *a, int64_t vectors,
                                        buddy_array *w, buddy_array *v,
                                        buddy_array *info,
                                        buddy_array *failed) {
  dispatch(a, failed, [&](auto zero) {
    using T = decltype(zero);
    using C = std::complex<Real<T>>;
    Batch batch(a, 2);
    for (int64_t i = 0; i < batch.count; ++i) {
      Matrix<T> matrix(batch.matrix<T>(a, i));
      int64_t size = vectors ? matrix.rows : 0;
      Matrix<C> right(size, size);
      std::vector<C> values;
      batch.number<int32_t>(info, i) = eig(matrix, values, right);
      storeVector(values, batch.vector<C>(w, i));
      if (vectors)
        right.store(batch.matrix<C>(v, i));
    }
  });
}
