//===- Views.h - matrices of a batch in arrays of any strides ---*- C++ -*-===//
//
// What the functions of arrays share: the element type of an array as a C++
// type, the report of a failure, the matrices of a batch, and their copies by
// columns as LAPACK takes them.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_RUNTIME_MATH_VIEWS_H
#define BUDDY_RUNTIME_MATH_VIEWS_H

#include "Special.h"
#include "buddy/Runtime/Array.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace buddy::math {

template <class T> struct RealOf {
  using type = T;
};
template <class T> struct RealOf<std::complex<T>> {
  using type = T;
};
/// The type of a number's parts.
template <class T> using Real = typename RealOf<T>::type;

inline int64_t sizeOf(const buddy_array *array, int64_t dim) {
  return array->extents[dim < 0 ? array->rank + dim : dim];
}
inline int64_t strideOf(const buddy_array *array, int64_t dim) {
  return array->extents[array->rank + (dim < 0 ? array->rank + dim : dim)];
}

template <class T>
inline constexpr bool isComplex = std::is_same_v<T, std::complex<float>> ||
                                  std::is_same_v<T, std::complex<double>>;

/// Calls `function` with a value of the array's element type, one of the four
/// with a fraction. `failed`, i32 of rank 0, becomes 0, or 1 after an
/// exception: of no memory, or of sizes that the library does not take.
template <class Function>
void dispatch(const buddy_array *array, const buddy_array *failed,
              Function function) {
  int32_t &flag = *static_cast<int32_t *>(failed->data);
  flag = 0;
  try {
    switch (array->element) {
    case BUDDY_F32:
      return function(float());
    case BUDDY_F64:
      return function(double());
    case BUDDY_COMPLEX64:
      return function(std::complex<float>());
    case BUDDY_COMPLEX128:
      return function(std::complex<double>());
    }
  } catch (...) {
  }
  flag = 1;
}

template <class T> T conjugate(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return x;
  else
    return std::conj(x);
}

/// A strided matrix.
template <class T> struct View {
  T *data;
  int64_t rows, columns, rowStride, columnStride;

  T &operator()(int64_t i, int64_t j) const {
    return data[i * rowStride + j * columnStride];
  }
  View transposed() const {
    return {data, columns, rows, columnStride, rowStride};
  }
};

/// The elements of an array that belong to one element of the batch; sizes of
/// its leading dimensions are those of the batch, from the last one, or 1.
struct Batch {
  /// The leading dimensions of `array`, all but the last `core` ones.
  Batch(const buddy_array *array, int64_t core)
      : sizes(array->extents, array->extents + array->rank - core) {
    for (int64_t size : sizes)
      count *= size;
  }

  template <class T>
  T *pointer(const buddy_array *array, int64_t core, int64_t index) const {
    T *data = static_cast<T *>(array->data);
    for (int64_t i = sizes.size() - 1, dim = array->rank - core - 1;
         i >= 0 && dim >= 0; --i, --dim) {
      if (sizeOf(array, dim) != 1)
        data += index % sizes[i] * strideOf(array, dim);
      index /= sizes[i];
    }
    return data;
  }
  template <class T>
  View<T> matrix(const buddy_array *array, int64_t index) const {
    return {pointer<T>(array, 2, index), sizeOf(array, -2), sizeOf(array, -1),
            strideOf(array, -2), strideOf(array, -1)};
  }
  /// A vector as a matrix of one column.
  template <class T>
  View<T> vector(const buddy_array *array, int64_t index) const {
    return {pointer<T>(array, 1, index), sizeOf(array, -1), 1,
            strideOf(array, -1), 0};
  }
  /// One number for each element of the batch.
  template <class T> T &number(const buddy_array *array, int64_t index) const {
    return *pointer<T>(array, 0, index);
  }

  std::vector<int64_t> sizes;
  int64_t count = 1;
};

/// Calls `function` with the place of each element, tile by tile, so that rows
/// and columns share cache lines.
template <class Function>
void forEachPlace(int64_t rows, int64_t columns, Function function) {
  constexpr int64_t kTile = 16;
  for (int64_t left = 0; left < columns; left += kTile)
    for (int64_t top = 0; top < rows; top += kTile)
      for (int64_t j = left; j < std::min(columns, left + kTile); ++j)
        for (int64_t i = top; i < std::min(rows, top + kTile); ++i)
          function(i, j);
}

/// A matrix by columns that owns its elements, as LAPACK takes it.
template <class T> struct Matrix {
  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), elements(rows * columns) {
    if (std::max(rows, columns) > std::numeric_limits<int>::max())
      throw std::length_error("LAPACK counts in int");
  }
  explicit Matrix(View<T> view, bool conjugated = false)
      : Matrix(view.rows, view.columns) {
    forEachPlace(rows, columns, [&](int64_t i, int64_t j) {
      (*this)(i, j) = conjugated ? conjugate(view(i, j)) : view(i, j);
    });
  }
  static Matrix identity(int64_t size) {
    Matrix result(size, size);
    for (int64_t i = 0; i < size; ++i)
      result(i, i) = T(1);
    return result;
  }

  T &operator()(int64_t i, int64_t j) { return elements[i + j * rows]; }
  T operator()(int64_t i, int64_t j) const { return elements[i + j * rows]; }
  T *data() { return elements.data(); }
  /// LAPACK's leading dimension is at least 1.
  int leading() const { return std::max(rows, 1); }

  /// Copies the upper left part that the view has.
  void store(View<T> view, bool conjugated = false) const {
    forEachPlace(view.rows, view.columns, [&](int64_t i, int64_t j) {
      view(i, j) = conjugated ? conjugate((*this)(i, j)) : (*this)(i, j);
    });
  }
  /// Makes what is not in the triangle zero.
  void keepTriangle(bool upper) {
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i)
        if (upper ? i > j : i < j)
          (*this)(i, j) = T(0);
  }

  int rows, columns;
  std::vector<T> elements;
};

/// Calls a routine twice: for the size of its work space, and with it.
template <class T, class Routine> void withWorkspace(Routine routine) {
  T size(0);
  int query = -1;
  routine(&size, &query);
  int length = std::max<int>(1, static_cast<int>(std::real(size)));
  std::vector<T> work(length);
  routine(work.data(), &length);
}

} // namespace buddy::math

#endif
