//===- Fourier.cpp - discrete Fourier transforms by MKL -------------------===//
//
// X[k] = scale Σ x[j] exp(∓2πi jk / n) along some dimensions of an array, by
// MKL's DFTI in the precision of the elements. It is called as PyTorch's CPU
// operators call it, so that results are eager's to the last bit if the caller
// brings the same memory: one descriptor for all dimensions, the others as one.
//
// `order` and `orderTo` have dimensions of the argument and of the result in
// the order in which they are one array of lines, four bits each from the
// lowest on; the last `count` ones are transformed. A result of which that
// order is row-major is written without a copy. `normalization` is what the sum
// is divided by: 0 for 1, 1 for the square root of the count of numbers summed,
// 2 for that count. The last argument of each function is `failed` (Views.h).
//
//===----------------------------------------------------------------------===//

#include "Views.h"

#include <mkl_dfti.h>

#include <cmath>
#include <memory>

using namespace buddy::math;

namespace {
using Sizes = std::vector<int64_t>;
static_assert(std::is_same_v<MKL_LONG, int64_t>, "how DFTI counts");

/// A transform that is not computed.
struct Refused {};

void require(MKL_LONG status) {
  if (status == DFTI_MEMORY_ERROR)
    throw std::bad_alloc();
  if (status != DFTI_NO_ERROR)
    throw Refused();
}

/// Memory is aligned as PyTorch's is.
struct alignas(64) Line {
  char bytes[64];
};

int64_t countOf(const Sizes &sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

Sizes rowMajor(const Sizes &sizes) {
  Sizes strides(sizes.size());
  int64_t count = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = count;
    count *= sizes[dim];
  }
  return strides;
}

/// An array's elements, as in `buddy_array` or in memory of its own.
template <class T> struct Elements {
  explicit Elements(const buddy_array *array)
      : data(static_cast<T *>(array->data)),
        sizes(array->extents, array->extents + array->rank),
        strides(array->extents + array->rank,
                array->extents + 2 * array->rank) {}
  /// With the dimensions in an order.
  Elements(const buddy_array *array, int64_t order) : Elements(array) {
    for (int64_t i = 0; i < array->rank; ++i) {
      int64_t dim = uint64_t(order) >> (4 * i) & 15;
      sizes[i] = sizeOf(array, dim);
      strides[i] = strideOf(array, dim);
    }
  }
  /// New memory, row-major.
  explicit Elements(const Sizes &sizes)
      : sizes(sizes), strides(rowMajor(sizes)),
        memory(new Line[countOf(sizes) * sizeof(T) / sizeof(Line) + 1]) {
    data = reinterpret_cast<T *>(memory.get());
  }

  int64_t rank() const { return sizes.size(); }
  T *at(const Sizes &index) const {
    T *element = data;
    for (size_t dim = 0; dim < index.size(); ++dim)
      element += index[dim] * strides[dim];
    return element;
  }

  T *data;
  Sizes sizes, strides;
  std::unique_ptr<Line[]> memory;
};

/// Calls `function` with the index of the first element of each line along the
/// last dimension.
template <class Function>
void forEachLine(const Sizes &sizes, Function function) {
  if (countOf(sizes) == 0)
    return;
  Sizes at(sizes.size(), 0);
  for (;;) {
    function(at);
    int64_t dim = int64_t(sizes.size()) - 2;
    for (; dim >= 0; --dim) {
      if (++at[dim] < sizes[dim])
        break;
      at[dim] = 0;
    }
    if (dim < 0)
      return;
  }
}

/// Copies elements between arrays of the same sizes.
template <class T>
void copyElements(const Elements<T> &from, const Elements<T> &to) {
  int64_t stepFrom = from.strides.back(), stepTo = to.strides.back();
  forEachLine(to.sizes, [&](const Sizes &index) {
    const T *x = from.at(index);
    T *y = to.at(index);
    for (int64_t i = 0; i < to.sizes.back(); ++i)
      y[i * stepTo] = x[i * stepFrom];
  });
}

/// Tells whether the first dimensions of an array are one, and its stride.
template <class T>
bool areOne(const Elements<T> &array, int64_t dims, int64_t &stride) {
  stride = -1;
  int64_t next = -1; // the stride of what would be the same dimension
  for (int64_t dim = dims; dim-- > 0;) {
    if (array.sizes[dim] == 1)
      continue;
    if (stride < 0)
      stride = array.strides[dim];
    else if (array.strides[dim] != next)
      return false;
    next = array.strides[dim] * array.sizes[dim];
  }
  if (stride < 0)
    stride = 1;
  return true;
}

/// Tells whether elements are repeated along a dimension, which DFTI refuses.
template <class T> bool isExpanded(const Elements<T> &array) {
  for (int64_t dim = 0; dim < array.rank(); ++dim)
    if (array.sizes[dim] != 1 && array.strides[dim] == 0)
      return true;
  return false;
}

/// A plan of MKL.
class Descriptor {
public:
  Descriptor(DFTI_CONFIG_VALUE precision, DFTI_CONFIG_VALUE domain,
             const Sizes &lengths) {
    MKL_LONG rank = lengths.size();
    require(rank == 1 ? DftiCreateDescriptor(&handle, precision, domain, 1,
                                             lengths[0])
                      : DftiCreateDescriptor(&handle, precision, domain, rank,
                                             lengths.data()));
  }
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() { DftiFreeDescriptor(&handle); }

  template <class Value> void set(DFTI_CONFIG_PARAM parameter, Value value) {
    require(DftiSetValue(handle, parameter, value));
  }
  void compute(bool forward, const void *from, void *to) {
    require(DftiCommitDescriptor(handle));
    void *x = const_cast<void *>(from);
    require(forward ? DftiComputeForward(handle, x, to)
                    : DftiComputeBackward(handle, x, to));
  }

private:
  DFTI_DESCRIPTOR_HANDLE handle = nullptr;
};

/// Transforms along the last dimensions, a real array to or from the part of a
/// complex one that determines the other part.
template <class From, class To>
void transformLast(const Elements<From> &from, const Elements<To> &to,
                   int64_t dims, bool forward, int64_t normalization) {
  if (countOf(from.sizes) == 0 || countOf(to.sizes) == 0)
    return;
  int64_t others = from.rank() - dims, step = 0, stepTo = 0;
  if (isExpanded(from) || !areOne(from, others, step)) {
    Elements<From> packed(from.sizes);
    copyElements(from, packed);
    return transformLast(packed, to, dims, forward, normalization);
  }
  int64_t all = 0;
  if (!areOne(to, to.rank(), all) || all != 1) {
    Elements<To> packed(to.sizes);
    transformLast(from, packed, dims, forward, normalization);
    return copyElements(packed, to);
  }
  areOne(to, others, stepTo);
  Sizes lengths, strides{0}, stridesTo{0};
  int64_t count = 1, batch = 1;
  for (int64_t dim = 0; dim < from.rank(); ++dim) {
    if (dim < others) {
      batch *= from.sizes[dim];
      continue;
    }
    lengths.push_back((isComplex<To> ? from.sizes : to.sizes)[dim]);
    count *= lengths.back();
    strides.push_back(from.strides[dim]);
    stridesTo.push_back(to.strides[dim]);
  }
  constexpr bool isReal = !isComplex<From> || !isComplex<To>;
  Descriptor plan(std::is_same_v<Real<From>, float> ? DFTI_SINGLE : DFTI_DOUBLE,
                  isReal ? DFTI_REAL : DFTI_COMPLEX, lengths);
  plan.set(DFTI_PLACEMENT, DFTI_NOT_INPLACE);
  plan.set(DFTI_NUMBER_OF_TRANSFORMS, batch);
  plan.set(DFTI_INPUT_DISTANCE, step);
  plan.set(DFTI_OUTPUT_DISTANCE, stepTo);
  plan.set(DFTI_INPUT_STRIDES, strides.data());
  plan.set(DFTI_OUTPUT_STRIDES, stridesTo.data());
  if (isReal)
    plan.set(DFTI_CONJUGATE_EVEN_STORAGE, DFTI_COMPLEX_COMPLEX);
  if (normalization)
    plan.set(
        forward ? DFTI_FORWARD_SCALE : DFTI_BACKWARD_SCALE,
        1.0 / (normalization == 1 ? std::sqrt(double(count)) : double(count)));
  plan.compute(forward, from.data, to.data);
}

/// The second half of a real array's transform along the last dimension, from
/// the first half; `dims` are transformed.
template <class T> void fillHalf(const Elements<T> &to, int64_t dims) {
  int64_t n = to.sizes.back(), step = to.strides.back();
  forEachLine(to.sizes, [&](const Sizes &index) {
    Sizes mirror = index;
    for (int64_t dim = to.rank() - dims; dim < to.rank(); ++dim)
      mirror[dim] = (to.sizes[dim] - index[dim]) % to.sizes[dim];
    const T *x = to.at(mirror);
    T *y = to.at(index);
    for (int64_t k = n / 2 + 1; k < n; ++k)
      y[k * step] = std::conj(x[(n - k) * step]);
  });
}

/// Refuses what cannot be the part of a line of complex numbers that
/// determines all of it.
void requireHalf(int64_t half, int64_t size) {
  if (size == 0 || half < size / 2 + 1)
    throw Refused();
}
} // namespace

/// Complex to complex.
BUDDY_MATH_EXPORT void buddy_fourier_c2c(const buddy_array *x, int64_t order,
                                         int64_t orderTo, int64_t count,
                                         int64_t normalization, int64_t forward,
                                         buddy_array *y, buddy_array *failed) {
  dispatch(y, failed, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (isComplex<T>)
      transformLast(Elements<T>(x, order), Elements<T>(y, orderTo), count,
                    forward, normalization);
  });
}

/// Real to complex, forward; `y` has all of the transform or, along the last
/// dimension, the first half of it.
BUDDY_MATH_EXPORT void buddy_fourier_r2c(const buddy_array *x, int64_t order,
                                         int64_t orderTo, int64_t count,
                                         int64_t normalization, buddy_array *y,
                                         buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!isComplex<T>) {
      Elements<T> from(x, order);
      Elements<std::complex<T>> to(y, orderTo);
      requireHalf(to.sizes.back(), from.sizes.back());
      transformLast(from, to, count, true, normalization);
      if (to.sizes.back() == from.sizes.back())
        fillHalf(to, count);
    }
  });
}

/// Half of a complex array to a real one, backward, along one dimension.
BUDDY_MATH_EXPORT void buddy_fourier_c2r(const buddy_array *x, int64_t order,
                                         int64_t orderTo, int64_t normalization,
                                         buddy_array *y, buddy_array *failed) {
  dispatch(y, failed, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!isComplex<T>) {
      Elements<std::complex<T>> from(x, order);
      Elements<T> to(y, orderTo);
      requireHalf(from.sizes.back(), to.sizes.back());
      transformLast(from, to, 1, false, normalization);
    }
  });
}
