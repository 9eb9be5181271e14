//===- MemRefIterator.h - Iteration over strided elements -------*- C++ -*-===//
//
// A forward iterator over the elements of a strided array in row-major order
// of their indices, the last dimension fastest.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_MEMREFITERATOR_H
#define BUDDY_MEMREFITERATOR_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

namespace buddy {

template <typename T, int N> class MemRefIterator {
public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = std::remove_const_t<T>;
  using difference_type = std::ptrdiff_t;
  using pointer = T *;
  using reference = T &;
  using Index = std::array<int64_t, N>;

  MemRefIterator() = default;

  /// At the first element, which lies at `data`; at the end if there is none.
  MemRefIterator(T *data, const Index &sizes, const Index &strides)
      : current(data), sizes(sizes), strides(strides) {
    if (std::find(sizes.begin(), sizes.end(), 0) == sizes.end())
      left = elementCount();
  }

  static MemRefIterator end(const Index &sizes, const Index &strides) {
    MemRefIterator result;
    result.sizes = sizes;
    result.strides = strides;
    return result;
  }

  reference operator*() const { return *current; }
  pointer operator->() const { return current; }

  MemRefIterator &operator++() {
    // No pointer is formed past the last element: with large strides it would
    // lie outside the allocation.
    if (--left == 0)
      return *this;
    for (int d = N - 1; d >= 0; --d) {
      if (++index[d] < sizes[d]) {
        current += strides[d];
        break;
      }
      current -= (sizes[d] - 1) * strides[d];
      index[d] = 0;
    }
    return *this;
  }
  MemRefIterator operator++(int) {
    MemRefIterator before = *this;
    ++*this;
    return before;
  }

  /// Compares iterators of the same array.
  friend bool operator==(const MemRefIterator &a, const MemRefIterator &b) {
    return a.left == b.left;
  }
  friend bool operator!=(const MemRefIterator &a, const MemRefIterator &b) {
    return a.left != b.left;
  }

  /// Of the current element.
  const Index &indices() const { return index; }

private:
  int64_t elementCount() const {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  }

  T *current = nullptr;
  int64_t left = 0; ///< Elements from the current one on.
  Index sizes{}, strides{}, index{};
};

} // namespace buddy

#endif // BUDDY_MEMREFITERATOR_H
