//===- Fourier.cpp - discrete Fourier transforms by MKL -------------------===//
//
// X[k] = scale Σ x[j] exp(∓2πi jk / n) along some dimensions of an array, by
// MKL's DFTI in the precision of the elements. It is called as PyTorch's CPU
// operators call it, so that results are eager's to the last bit wherever MKL
// itself repeats them: one descriptor for all dimensions, in the order that the
// caller gives; the other dimensions as one, by descending strides; the result
// row-major in that order.
//
// `dims` has a dimension plus 1 in each byte, from the lowest byte on; seven is
// also as many as DFTI takes. `normalization` is what the sum is divided by: 0
// for 1, 1 for the square root of the count of numbers summed, 2 for that
// count.
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

/// DFTI's word for a transform that it does not compute.
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

Sizes rowMajor(const Sizes &sizes, const Sizes &order) {
  Sizes strides(sizes.size());
  int64_t count = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = count;
    count *= sizes[order[i]];
  }
  return strides;
}

int64_t countOf(const Sizes &sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

/// An array's elements, as in `buddy_array` or in memory of its own.
template <class T> struct Elements {
  explicit Elements(const buddy_array *array)
      : data(static_cast<T *>(array->data)),
        sizes(array->extents, array->extents + array->rank),
        strides(array->extents + array->rank,
                array->extents + 2 * array->rank) {}
  /// New memory of these sizes, row-major with the dimensions in an order.
  Elements(const Sizes &sizes, const Sizes &order)
      : sizes(sizes), strides(rowMajor(sizes, order)) {
    size_t bytes = countOf(sizes) * sizeof(T);
    memory.reset(new Line[bytes / sizeof(Line) + 1]);
    data = reinterpret_cast<T *>(memory.get());
  }

  T *data;
  Sizes sizes, strides;
  std::unique_ptr<Line[]> memory;
};

int64_t offsetOf(const Sizes &at, const Sizes &strides) {
  int64_t offset = 0;
  for (size_t dim = 0; dim < at.size(); ++dim)
    offset += at[dim] * strides[dim];
  return offset;
}

/// Calls `function` with the index of the first element of each line along a
/// dimension.
template <class Function>
void forEachLine(const Sizes &sizes, int64_t line, Function function) {
  if (countOf(sizes) == 0)
    return;
  Sizes at(sizes.size(), 0);
  for (;;) {
    function(at);
    int64_t dim = sizes.size() - 1;
    for (; dim >= 0; --dim) {
      if (dim == line)
        continue;
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
void copyElements(const Elements<T> &from, const Elements<T> &to,
                  int64_t line) {
  forEachLine(to.sizes, line, [&](const Sizes &at) {
    const T *x = from.data + offsetOf(at, from.strides);
    T *y = to.data + offsetOf(at, to.strides);
    for (int64_t i = 0; i < to.sizes[line]; ++i)
      y[i * to.strides[line]] = x[i * from.strides[line]];
  });
}

/// Tells whether the first dimensions of an order are one dimension.
bool areOne(const Sizes &sizes, const Sizes &strides, const Sizes &order,
            size_t count) {
  int64_t next = -1; // the stride that would continue the dimension
  for (size_t i = count; i-- > 0;) {
    int64_t size = sizes[order[i]], stride = strides[order[i]];
    if (size == 1)
      continue;
    if (next >= 0 && stride != next)
      return false;
    next = stride * size;
  }
  return true;
}

/// The stride of dimensions that are one: that of the last one that has any.
int64_t strideOfOne(const Sizes &sizes, const Sizes &strides,
                    const Sizes &order, size_t count) {
  for (size_t i = count; i-- > 0;)
    if (sizes[order[i]] != 1)
      return strides[order[i]];
  return 1;
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

/// All dimensions: the others by descending strides, then `dims`.
Sizes orderOf(const Sizes &strides, const Sizes &dims) {
  Sizes order;
  for (int64_t dim = 0; dim < int64_t(strides.size()); ++dim)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end())
      order.push_back(dim);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : a < b;
  });
  order.insert(order.end(), dims.begin(), dims.end());
  return order;
}

/// Whether strides are those of a layout, but where they do not matter.
bool hasStrides(const Sizes &sizes, const Sizes &strides, const Sizes &wanted) {
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    if (sizes[dim] != 1 && strides[dim] != wanted[dim])
      return false;
  return true;
}

/// Transforms along `dims`, a real array to or from the part of a complex one
/// that it determines.
template <class From, class To>
void transformAlong(const Elements<From> &from, const Elements<To> &to,
                    const Sizes &dims, bool forward, int64_t normalization) {
  if (countOf(from.sizes) == 0 || countOf(to.sizes) == 0)
    return;
  Sizes order = orderOf(from.strides, dims);
  size_t others = order.size() - dims.size();
  if (!areOne(from.sizes, from.strides, order, others)) {
    Elements<From> packed(from.sizes, order);
    copyElements(from, packed, order.back());
    return transformAlong(packed, to, dims, forward, normalization);
  }
  if (!hasStrides(to.sizes, to.strides, rowMajor(to.sizes, order))) {
    Elements<To> packed(to.sizes, order);
    transformAlong(from, packed, dims, forward, normalization);
    return copyElements(packed, to, to.sizes.size() - 1);
  }
  Sizes lengths, fromStrides{0}, toStrides{0};
  int64_t count = 1, batch = 1;
  for (int64_t dim : dims) {
    lengths.push_back((isComplex<To> ? from.sizes : to.sizes)[dim]);
    fromStrides.push_back(from.strides[dim]);
    toStrides.push_back(to.strides[dim]);
    count *= lengths.back();
  }
  for (size_t i = 0; i < others; ++i)
    batch *= from.sizes[order[i]];
  constexpr bool isReal = !isComplex<From> || !isComplex<To>;
  Descriptor plan(std::is_same_v<Real<From>, float> ? DFTI_SINGLE : DFTI_DOUBLE,
                  isReal ? DFTI_REAL : DFTI_COMPLEX, lengths);
  plan.set(DFTI_PLACEMENT, DFTI_NOT_INPLACE);
  plan.set(DFTI_NUMBER_OF_TRANSFORMS, batch);
  plan.set(DFTI_INPUT_DISTANCE,
           strideOfOne(from.sizes, from.strides, order, others));
  plan.set(DFTI_OUTPUT_DISTANCE,
           strideOfOne(to.sizes, to.strides, order, others));
  plan.set(DFTI_INPUT_STRIDES, fromStrides.data());
  plan.set(DFTI_OUTPUT_STRIDES, toStrides.data());
  if (isReal)
    plan.set(DFTI_CONJUGATE_EVEN_STORAGE, DFTI_COMPLEX_COMPLEX);
  if (normalization)
    plan.set(
        forward ? DFTI_FORWARD_SCALE : DFTI_BACKWARD_SCALE,
        1.0 / (normalization == 1 ? std::sqrt(double(count)) : double(count)));
  plan.compute(forward, from.data, to.data);
}

/// The other half of a real array's transform, along the last one of `dims`,
/// from the first one.
template <class T> void fillHalf(const Elements<T> &to, const Sizes &dims) {
  int64_t line = dims.back(), n = to.sizes[line];
  forEachLine(to.sizes, line, [&](const Sizes &at) {
    Sizes mirror = at;
    for (int64_t dim : dims)
      if (dim != line)
        mirror[dim] = (to.sizes[dim] - at[dim]) % to.sizes[dim];
    const T *x = to.data + offsetOf(mirror, to.strides);
    T *y = to.data + offsetOf(at, to.strides);
    for (int64_t k = n / 2 + 1; k < n; ++k)
      y[k * to.strides[line]] = std::conj(x[(n - k) * to.strides[line]]);
  });
}

Sizes unpack(int64_t dims) {
  Sizes result;
  for (; dims; dims >>= 8)
    result.push_back((dims & 255) - 1);
  return result;
}

/// The half of a line of numbers that determines the other one.
void requireHalf(int64_t half, int64_t size) {
  if (size == 0 || half < size / 2 + 1)
    throw Refused();
}
} // namespace

/// Complex to complex.
BUDDY_MATH_EXPORT void buddy_fourier_c2c(const buddy_array *x, int64_t dims,
                                         int64_t normalization, int64_t forward,
                                         buddy_array *y, buddy_array *failed) {
  dispatch(y, failed, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (isComplex<T>)
      transformAlong(Elements<T>(x), Elements<T>(y), unpack(dims), forward,
                     normalization);
  });
}

/// Real to complex, forward; along the last one of `dims`, `y` has all of the
/// transform or the first half of it.
BUDDY_MATH_EXPORT void buddy_fourier_r2c(const buddy_array *x, int64_t dims,
                                         int64_t normalization, buddy_array *y,
                                         buddy_array *failed) {
  dispatch(x, failed, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!isComplex<T>) {
      Elements<T> from(x);
      Elements<std::complex<T>> to(y);
      Sizes order = unpack(dims);
      requireHalf(to.sizes[order.back()], from.sizes[order.back()]);
      transformAlong(from, to, order, true, normalization);
      if (to.sizes[order.back()] == from.sizes[order.back()])
        fillHalf(to, order);
    }
  });
}

/// Half of a complex array to a real one, backward: along all but the last one
/// of `dims`, then along that one, whose size is that of `y`.
BUDDY_MATH_EXPORT void buddy_fourier_c2r(const buddy_array *x, int64_t dims,
                                         int64_t normalization, buddy_array *y,
                                         buddy_array *failed) {
  dispatch(y, failed, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!isComplex<T>) {
      Elements<std::complex<T>> from(x);
      Elements<T> to(y);
      Sizes order = unpack(dims), last = {order.back()};
      order.pop_back();
      requireHalf(from.sizes[last[0]], to.sizes[last[0]]);
      if (order.empty())
        return transformAlong(from, to, last, false, normalization);
      Elements<std::complex<T>> between(from.sizes,
                                        orderOf(from.strides, order));
      transformAlong(from, between, order, false, normalization);
      transformAlong(between, to, last, false, normalization);
    }
  });
}
