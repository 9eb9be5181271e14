//===- Weights.h - Memory-mapped safetensors files --------------*- C++ -*-===//
//
// A safetensors file is a little-endian u64 header length, a JSON header that
// gives each tensor's dtype, shape and byte range, and the data section
// (format: huggingface/safetensors, README).  The file is mapped read-only, so
// that processes share its pages, and checked in full when it is opened.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_WEIGHTS_H
#define BUDDY_WEIGHTS_H

#include "buddy/DType.h"
#include "buddy/MappedFile.h"
#include "buddy/MemRef.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace buddy {

/// Where a tensor lies in a Weights file.
struct WeightInfo {
  DType dtype;
  std::vector<int64_t> sizes;
  int64_t offset; ///< From the start of the data section, bytes.
  int64_t byteSize;
};

class Weights {
public:
  /// Maps and checks a file.  Throws buddy::Error naming the file, and the
  /// tensor at fault if there is one.
  static Weights open(const std::string &path);

  const std::string &path() const { return file.path(); }

  /// The data section; its address stays until the Weights goes away.
  const void *data() const { return section; }
  int64_t size() const { return sectionSize; }

  const std::map<std::string, WeightInfo, std::less<>> &tensors() const {
    return table;
  }
  /// The header's "__metadata__".
  const std::map<std::string, std::string, std::less<>> &metadata() const {
    return notes;
  }

  /// Throws buddy::Error if there is no such tensor.
  const WeightInfo &info(std::string_view name) const;

  /// A view of a tensor, valid as long as this.  Throws buddy::Error if its
  /// dtype is not T's, its rank is not N, or its data is not aligned for T.
  template <typename T, int N>
  MemRef<const T, N> tensor(std::string_view name) const {
    const WeightInfo &found = info(name);
    checkTensor(name, found, DTypeOf<T>::value, N, alignof(T));
    std::array<int64_t, N> sizes{};
    std::copy(found.sizes.begin(), found.sizes.end(), sizes.begin());
    return MemRef<const T, N>::view(
        reinterpret_cast<const T *>(section + found.offset), sizes);
  }

private:
  Weights() = default;
  void checkTensor(std::string_view name, const WeightInfo &info, DType dtype,
                   int rank, size_t alignment) const;
  void parseHeader(std::string_view header);

  MappedFile file;
  const char *section = nullptr;
  int64_t sectionSize = 0;
  std::map<std::string, WeightInfo, std::less<>> table;
  std::map<std::string, std::string, std::less<>> notes;
};

} // namespace buddy

#endif // BUDDY_WEIGHTS_H
