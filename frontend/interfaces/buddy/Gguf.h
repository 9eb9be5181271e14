//===- Gguf.h - Reader of GGUF model files ----------------------*- C++ -*-===//
//
// Reads the metadata and the tensor table of a GGUF file (versions 2 and 3,
// little-endian; format: docs/gguf.md of ggml).  The file is mapped and checked
// in full when it is opened: afterwards every string and tensor that the reader
// returns lies within the file.  Nothing is copied.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_GGUF_H
#define BUDDY_GGUF_H

#include "buddy/MappedFile.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace buddy {

/// Types of metadata values, as numbered in the file.
enum class GgufType : uint32_t {
  UInt8 = 0,
  Int8 = 1,
  UInt16 = 2,
  Int16 = 3,
  UInt32 = 4,
  Int32 = 5,
  Float32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  UInt64 = 10,
  Int64 = 11,
  Float64 = 12,
};

/// One tensor of the file.
struct GgufTensor {
  std::string_view name;
  uint32_t type;              ///< ggml_type.
  std::vector<int64_t> sizes; ///< Row-major: the last dimension is contiguous.
  const char *data;
  int64_t byteSize;
};

class Gguf {
public:
  /// Maps and checks a file.  Throws buddy::Error naming the file and the key
  /// or tensor at fault.
  static Gguf open(const std::string &path);

  const std::string &path() const { return file.path(); }

  bool has(std::string_view key) const { return values.count(key) != 0; }

  /// Value of a key; nothing if the key is absent.  Throws buddy::Error if it
  /// is there with a type that does not convert without loss of meaning (any
  /// integer or bool for getInt and getBool, any number for getFloat).
  std::optional<std::string_view> getString(std::string_view key) const;
  std::optional<int64_t> getInt(std::string_view key) const;
  std::optional<double> getFloat(std::string_view key) const;
  std::optional<bool> getBool(std::string_view key) const;

  /// Elements of an array; nothing if the key is absent.
  std::optional<std::vector<std::string_view>>
  getStrings(std::string_view key) const;
  std::optional<std::vector<int64_t>> getInts(std::string_view key) const;
  std::optional<std::vector<float>> getFloats(std::string_view key) const;

  const std::vector<GgufTensor> &tensors() const { return tensorTable; }
  /// Null if there is no such tensor.
  const GgufTensor *findTensor(std::string_view name) const;

private:
  struct Value {
    GgufType type; ///< Of the element if it is an array.
    bool isArray;
    uint64_t count;       ///< Elements; 1 for a scalar.
    const char *position; ///< Of the first element in the file.
  };

  Gguf() = default;
  const Value *find(std::string_view key, bool isArray) const;
  int64_t integerAt(std::string_view key, const Value &value,
                    const char *position) const;
  double numberAt(std::string_view key, const Value &value,
                  const char *position) const;
  [[noreturn]] void wrongType(std::string_view key) const;
  friend class GgufParser;

  MappedFile file;
  std::unordered_map<std::string_view, Value> values;
  std::vector<GgufTensor> tensorTable;
  std::unordered_map<std::string_view, size_t> tensorIndex;
};

} // namespace buddy

#endif // BUDDY_GGUF_H
