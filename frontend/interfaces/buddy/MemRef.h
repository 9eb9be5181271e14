//===- MemRef.h - Strided multi-dimensional arrays --------------*- C++ -*-===//
//
// MemRef<T, N> is an array of N dimensions with a size and a stride (in
// elements) for each, laid out as MLIR's C descriptor, so that its address can
// be handed to compiled code.  It either owns its memory (64-byte aligned,
// zero-filled) or is a view of memory that someone else keeps alive.
//
// Invariant: sizes are not negative, and for a MemRef made by this class every
// element that the sizes and strides reach lies in the underlying allocation.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_MEMREF_H
#define BUDDY_MEMREF_H

#include "buddy/Context.h"
#include "buddy/Error.h"
#include "buddy/MemRefIterator.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace buddy {

/// MLIR's StridedMemRefType (mlir/ExecutionEngine/CRunnerUtils.h).
template <typename T, int N> struct MemRefDescriptor {
  T *base;        ///< What was allocated.
  T *aligned;     ///< The origin of `offset`.
  int64_t offset; ///< Of the first element from `aligned`, in elements.
  int64_t sizes[N];
  int64_t strides[N]; ///< In elements.
};

template <typename T> struct MemRefDescriptor<T, 0> {
  T *base;
  T *aligned;
  int64_t offset;
};

template <typename T, int N> class MemRef {
  static_assert(N >= 0, "a rank is not negative");
  static_assert(std::is_trivially_copyable_v<T>,
                "elements are shared with compiled code");

public:
  using Element = T;
  using Value = std::remove_const_t<T>;
  using Descriptor = MemRefDescriptor<T, N>;
  using Index = std::array<int64_t, N>;
  using iterator = MemRefIterator<T, N>;

  static constexpr int Rank = N;
  static constexpr int64_t Alignment = 64; ///< Of owned memory, bytes.

  /// No memory; every size is 0.
  MemRef() noexcept = default;

  /// Owns zero-filled memory, row-major.  Throws buddy::Error if a size is
  /// negative, the byte count overflows, or there is no memory.
  explicit MemRef(const Index &sizes) {
    static_assert(!std::is_const_v<T>, "owned memory must be writable");
    int64_t count = setShape(sizes, rowMajorStrides(sizes));
    int64_t bytes;
    if (__builtin_mul_overflow(count, int64_t(sizeof(T)), &bytes) ||
        bytes > INT64_MAX - Alignment)
      throw Error(BUDDY_E_SHAPE, "memref of shape " + shapeText(sizes) +
                                     " is larger than the address space");
    // calloc, because large zeroed blocks come lazily from the kernel: a cache
    // costs memory only as far as it is filled.  A size of 0 still gets a
    // valid address.
    memory.reset(std::calloc(1, bytes + Alignment));
    if (!memory)
      throw Error(BUDDY_E_NOMEM, "no memory for a memref of shape " +
                                     shapeText(sizes) + " (" +
                                     std::to_string(bytes) + " bytes)");
    auto address = reinterpret_cast<uintptr_t>(memory.get());
    address = (address + Alignment - 1) & ~uintptr_t(Alignment - 1);
    desc.base = static_cast<T *>(memory.get());
    desc.aligned = reinterpret_cast<T *>(address);
  }

  /// Owns memory of which every element is `value`.
  MemRef(const Index &sizes, const Value &value) : MemRef(sizes) {
    std::fill_n(data(), numElements(), value);
  }

  MemRef(MemRef &&other) noexcept
      : desc(std::exchange(other.desc, Descriptor{})),
        memory(std::move(other.memory)) {}
  MemRef &operator=(MemRef &&other) noexcept {
    if (this != &other) {
      desc = std::exchange(other.desc, Descriptor{});
      memory = std::move(other.memory);
    }
    return *this;
  }
  MemRef(const MemRef &) = delete;
  MemRef &operator=(const MemRef &) = delete;

  /// A row-major view of `data`, which must outlive it.
  static MemRef view(T *data, const Index &sizes) {
    return view(data, sizes, rowMajorStrides(sizes));
  }

  /// A strided view of `data` (the first element); strides may be 0 or
  /// negative.
  static MemRef view(T *data, const Index &sizes, const Index &strides) {
    MemRef result;
    int64_t count = result.setShape(sizes, strides);
    if (!data && count != 0)
      throw Error(BUDDY_E_NULL,
                  "null data for a memref of shape " + shapeText(sizes));
    result.desc.base = result.desc.aligned = data;
    return result;
  }

  /// A view of what a descriptor describes.
  static MemRef view(const Descriptor &descriptor) {
    MemRef result;
    result.desc = descriptor;
    return result;
  }

  /// Takes over `descriptor.base`, which was allocated with malloc or its kin
  /// (for instance an output that Context::releaseOutput gave up).
  static MemRef adopt(const Descriptor &descriptor) {
    MemRef result = view(descriptor);
    result.memory.reset(const_cast<Value *>(descriptor.base));
    return result;
  }

  /// Views of the whole.
  MemRef view() { return view(desc); }
  MemRef<const T, N> view() const {
    MemRef<const T, N> result;
    result.desc.base = desc.base;
    result.desc.aligned = desc.aligned;
    result.desc.offset = desc.offset;
    if constexpr (N > 0) {
      std::copy_n(desc.sizes, N, result.desc.sizes);
      std::copy_n(desc.strides, N, result.desc.strides);
    }
    return result;
  }

  /// The struct that compiled code takes a pointer to.
  Descriptor *descriptor() noexcept { return &desc; }
  const Descriptor *descriptor() const noexcept { return &desc; }

  bool ownsMemory() const noexcept { return memory != nullptr; }
  T *data() noexcept { return origin(); }
  const T *data() const noexcept { return origin(); }

  int64_t size(int dim) const {
    checkDim(dim);
    return sizes()[dim];
  }
  int64_t stride(int dim) const {
    checkDim(dim);
    return strides()[dim];
  }
  Index sizes() const noexcept {
    Index result{};
    if constexpr (N > 0)
      std::copy_n(desc.sizes, N, result.begin());
    return result;
  }
  Index strides() const noexcept {
    Index result{};
    if constexpr (N > 0)
      std::copy_n(desc.strides, N, result.begin());
    return result;
  }

  /// 1 for rank 0.
  int64_t numElements() const noexcept {
    int64_t count = 1;
    if constexpr (N > 0) {
      // The sizes beside a 0 may have a product that overflows.
      if (std::find(desc.sizes, desc.sizes + N, 0) != desc.sizes + N)
        return 0;
      for (int64_t size : desc.sizes)
        count *= size;
    }
    return count;
  }
  bool empty() const noexcept { return numElements() == 0; }

  /// Whether the elements lie row-major without gaps.
  bool isContiguous() const noexcept {
    if (empty())
      return true;
    int64_t expected = 1;
    if constexpr (N > 0)
      for (int d = N - 1; d >= 0; --d) {
        if (desc.sizes[d] != 1 && desc.strides[d] != expected)
          return false;
        expected *= desc.sizes[d];
      }
    return true;
  }

  /// The element at an index; not checked.
  template <typename... I> T &operator()(I... index) noexcept {
    return origin()[linear(toIndex(index...))];
  }
  template <typename... I> const T &operator()(I... index) const noexcept {
    return origin()[linear(toIndex(index...))];
  }
  T &operator[](const Index &index) noexcept { return origin()[linear(index)]; }
  const T &operator[](const Index &index) const noexcept {
    return origin()[linear(index)];
  }

  /// The element at an index; throws buddy::Error if it is out of bounds.
  template <typename... I> T &at(I... index) {
    return origin()[checked(toIndex(index...))];
  }
  template <typename... I> const T &at(I... index) const {
    return origin()[checked(toIndex(index...))];
  }

  /// Elements in row-major order of their indices.
  iterator begin() noexcept { return iterator(origin(), sizes(), strides()); }
  iterator end() noexcept { return iterator::end(sizes(), strides()); }
  MemRefIterator<const T, N> begin() const noexcept {
    return MemRefIterator<const T, N>(origin(), sizes(), strides());
  }
  MemRefIterator<const T, N> end() const noexcept {
    return MemRefIterator<const T, N>::end(sizes(), strides());
  }

  /// View of indices begin, begin + step, … < end of dimension `dim`.
  /// 0 <= begin <= end <= size(dim), step >= 1.
  MemRef slice(int dim, int64_t begin, int64_t end, int64_t step = 1) {
    checkDim(dim);
    MemRef result = view();
    if constexpr (N > 0) {
      if (begin < 0 || end < begin || end > desc.sizes[dim] || step < 1)
        throw Error(BUDDY_E_SHAPE,
                    "slice [" + std::to_string(begin) + ":" +
                        std::to_string(end) + ":" + std::to_string(step) +
                        "] of dimension " + std::to_string(dim) +
                        " of a memref of shape " + shapeText(sizes()));
      int64_t count = begin == end ? 0 : (end - begin - 1) / step + 1;
      // Never form a stride or an offset that no element uses: it might
      // overflow.
      if (count > 0)
        result.desc.offset += begin * desc.strides[dim];
      result.desc.sizes[dim] = count;
      if (count > 1)
        result.desc.strides[dim] *= step;
    }
    return result;
  }

  /// View of one index of dimension `dim`, which goes away.
  MemRef<T, (N > 0 ? N - 1 : 0)> select(int dim, int64_t index) {
    static_assert(N > 0, "a memref of rank 0 has no dimension to select");
    checkDim(dim);
    if (index < 0 || index >= desc.sizes[dim])
      throw Error(BUDDY_E_SHAPE, "index " + std::to_string(index) +
                                     " of dimension " + std::to_string(dim) +
                                     " of a memref of shape " +
                                     shapeText(sizes()));
    typename MemRef<T, N - 1>::Descriptor result{};
    result.base = desc.base;
    result.aligned = desc.aligned;
    result.offset = desc.offset + index * desc.strides[dim];
    if constexpr (N > 1)
      for (int from = 0, to = 0; from < N; ++from)
        if (from != dim) {
          result.sizes[to] = desc.sizes[from];
          result.strides[to++] = desc.strides[from];
        }
    return MemRef<T, N - 1>::view(result);
  }

  /// View whose dimension d is this one's dimension permutation[d].
  MemRef transpose(const std::array<int, N> &permutation) {
    MemRef result = view();
    if constexpr (N > 0) {
      std::array<bool, N> seen{};
      for (int d = 0; d < N; ++d) {
        int from = permutation[d];
        checkDim(from);
        if (std::exchange(seen[from], true))
          throw Error(BUDDY_E_SHAPE, "dimension " + std::to_string(from) +
                                         " occurs twice in a permutation");
        result.desc.sizes[d] = desc.sizes[from];
        result.desc.strides[d] = desc.strides[from];
      }
    }
    return result;
  }

  /// View with two dimensions exchanged.
  MemRef transpose(int a, int b) {
    checkDim(a);
    checkDim(b);
    MemRef result = view();
    if constexpr (N > 0) {
      std::swap(result.desc.sizes[a], result.desc.sizes[b]);
      std::swap(result.desc.strides[a], result.desc.strides[b]);
    }
    return result;
  }

  /// View of a contiguous memref under another shape of as many elements.
  template <size_t M>
  MemRef<T, int(M)> reshape(const std::array<int64_t, M> &newSizes) {
    if (!isContiguous())
      throw Error(BUDDY_E_SHAPE, "reshape of a memref that is not contiguous; "
                                 "clone() it first");
    auto result = MemRef<T, int(M)>::view(data(), newSizes);
    if (result.numElements() != numElements())
      throw Error(BUDDY_E_SHAPE, "reshape of " + shapeText(sizes()) + " to " +
                                     shapeText(newSizes) +
                                     " changes the number of elements");
    return result;
  }

  void fill(const Value &value) { std::fill(begin(), end(), value); }

  /// Copies the elements of a memref of the same shape, which must not overlap
  /// with this one.
  template <typename U> void copyFrom(const MemRef<U, N> &source) {
    static_assert(std::is_same_v<std::remove_const_t<U>, Value>,
                  "copyFrom does not convert elements");
    if (source.sizes() != sizes())
      throw Error(BUDDY_E_SHAPE, "copy of a memref of shape " +
                                     shapeText(source.sizes()) +
                                     " to one of shape " + shapeText(sizes()));
    if (source.isContiguous() && isContiguous()) {
      std::copy_n(source.data(), numElements(), data());
      return;
    }
    std::copy(source.begin(), source.end(), begin());
  }

  /// A row-major copy that owns its memory.
  MemRef<Value, N> clone() const {
    MemRef<Value, N> result(sizes());
    result.copyFrom(*this);
    return result;
  }

private:
  template <typename U, int M> friend class MemRef;

  struct Free {
    void operator()(void *pointer) const noexcept { std::free(pointer); }
  };

  // Null plus 0 is defined, so an empty memref is safe too.
  T *origin() const noexcept { return desc.aligned + desc.offset; }

  template <size_t M>
  static std::string shapeText(const std::array<int64_t, M> &sizes) {
    std::string text = "[";
    for (size_t d = 0; d < M; ++d)
      text += (d ? ", " : "") + std::to_string(sizes[d]);
    return text + "]";
  }

  /// Strides of the identity layout: each is the product of the sizes after
  /// it, also where one of them is 0, as in MLIR.
  static Index rowMajorStrides(const Index &sizes) {
    Index result{};
    int64_t next = 1;
    for (int d = N - 1; d >= 0; --d) {
      result[d] = next;
      if (__builtin_mul_overflow(next, sizes[d], &next))
        throw Error(BUDDY_E_SHAPE,
                    "memref of shape " + shapeText(sizes) +
                        " has more elements than fit in 64 bits");
    }
    return result;
  }

  /// Stores shape and strides after checking that neither the number of
  /// elements nor their byte offsets overflow; returns the former.
  int64_t setShape(const Index &sizes, const Index &strides) {
    int64_t count = 1, extent = 0;
    bool overflow = false;
    bool hasZero = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
    for (int d = 0; d < N; ++d) {
      if (sizes[d] < 0)
        throw Error(BUDDY_E_SHAPE,
                    "negative size in memref shape " + shapeText(sizes));
      if (hasZero)
        continue;
      int64_t last;
      overflow |= __builtin_mul_overflow(count, sizes[d], &count);
      overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &last);
      if (last < 0)
        overflow |= __builtin_sub_overflow(extent, last, &extent);
      else
        overflow |= __builtin_add_overflow(extent, last, &extent);
    }
    int64_t bytes;
    overflow |= __builtin_mul_overflow(extent, int64_t(sizeof(T)), &bytes);
    if (overflow)
      throw Error(BUDDY_E_SHAPE, "memref of shape " + shapeText(sizes) +
                                     " is larger than the address space");
    if constexpr (N > 0) {
      std::copy_n(sizes.begin(), N, desc.sizes);
      std::copy_n(strides.begin(), N, desc.strides);
    }
    return hasZero ? 0 : count;
  }

  static void checkDim(int dim) {
    if (dim < 0 || dim >= N)
      throw Error(BUDDY_E_SHAPE, "dimension " + std::to_string(dim) +
                                     " of a memref of rank " +
                                     std::to_string(N));
  }

  int64_t linear(const Index &index) const noexcept {
    int64_t offset = 0;
    if constexpr (N > 0)
      for (int d = 0; d < N; ++d)
        offset += index[d] * desc.strides[d];
    return offset;
  }

  int64_t checked(const Index &index) const {
    if (!desc.aligned)
      throw Error(BUDDY_E_NULL, "access to a memref without memory");
    if constexpr (N > 0)
      for (int d = 0; d < N; ++d)
        if (index[d] < 0 || index[d] >= desc.sizes[d])
          throw Error(BUDDY_E_SHAPE, "index " + shapeText(index) +
                                         " is outside a memref of shape " +
                                         shapeText(sizes()));
    return linear(index);
  }

  template <typename... I> static Index toIndex(I... index) noexcept {
    static_assert(sizeof...(I) == N, "as many indices as dimensions");
    static_assert((std::is_integral_v<I> && ...), "indices are integers");
    return Index{static_cast<int64_t>(index)...};
  }

  Descriptor desc{};
  std::unique_ptr<void, Free> memory;
};

} // namespace buddy

#endif // BUDDY_MEMREF_H
