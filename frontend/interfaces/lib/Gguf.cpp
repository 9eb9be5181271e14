//===- Gguf.cpp - Reader of GGUF model files ------------------------------===//
//
// Layout of the file: magic "GGUF", u32 version, u64 tensor count, u64 key
// count, the keys, the tensor table, padding to general.alignment, data.
//
//===----------------------------------------------------------------------===//

#include "buddy/Gguf.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <algorithm>
#include <cstring>

using namespace buddy;

namespace {

/// Elements and bytes of a block of a ggml_type (ggml.c, type_traits).
struct BlockSize {
  uint32_t type;
  int64_t elements, bytes;
};

constexpr BlockSize BlockSizes[] = {
    {0, 1, 4},      {1, 1, 2},      {2, 32, 18},    {3, 32, 20},
    {6, 32, 22},    {7, 32, 24},    {8, 32, 34},    {10, 256, 84},
    {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210},
    {16, 256, 66},  {17, 256, 74},  {18, 256, 98},  {19, 256, 50},
    {20, 32, 18},   {21, 256, 110}, {22, 256, 82},  {23, 256, 136},
    {24, 1, 1},     {25, 1, 2},     {26, 1, 4},     {27, 1, 8},
    {28, 1, 8},     {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
    {35, 256, 66},  {39, 32, 17},   {40, 64, 36},   {41, 128, 18}};

/// Bytes of a fixed-size metadata value; 0 for strings, arrays and unknowns.
size_t scalarSize(GgufType type) {
  switch (type) {
  case GgufType::UInt8:
  case GgufType::Int8:
  case GgufType::Bool:
    return 1;
  case GgufType::UInt16:
  case GgufType::Int16:
    return 2;
  case GgufType::UInt32:
  case GgufType::Int32:
  case GgufType::Float32:
    return 4;
  case GgufType::UInt64:
  case GgufType::Int64:
  case GgufType::Float64:
    return 8;
  case GgufType::String:
  case GgufType::Array:
    break;
  }
  return 0;
}

template <typename T> T load(const char *position) {
  T value;
  std::memcpy(&value, position, sizeof(T));
  return value;
}

/// Reads a string that the parser has already checked; moves past it.
std::string_view checkedString(const char *&position) {
  auto length = load<uint64_t>(position);
  std::string_view text(position + 8, length);
  position += 8 + length;
  return text;
}

} // namespace

namespace buddy {

/// Walks the file once and checks everything that the reader relies on.
class GgufParser {
public:
  explicit GgufParser(Gguf &gguf)
      : gguf(gguf), position(gguf.file.data()),
        end(position + gguf.file.size()) {}

  void parse() {
    if (gguf.file.size() < 4 || std::memcmp(position, "GGUF", 4) != 0)
      fail("not a GGUF file (wrong magic)");
    position += 4;
    auto version = take<uint32_t>("version");
    if (version != 2 && version != 3)
      fail("GGUF version " + std::to_string(version) +
           " is not supported (2 and 3 are)");
    auto tensorCount = take<uint64_t>("tensor count");
    auto keyCount = take<uint64_t>("key count");
    for (uint64_t i = 0; i < keyCount; ++i)
      parseKey();
    parseTensors(tensorCount);
  }

private:
  [[noreturn]] void fail(const std::string &what) const {
    throw Error(BUDDY_E_FORMAT, gguf.path() + ": " + what);
  }

  size_t left() const { return static_cast<size_t>(end - position); }

  template <typename T> T take(const char *what) {
    if (left() < sizeof(T))
      fail(std::string("truncated in ") + what);
    T value = load<T>(position);
    position += sizeof(T);
    return value;
  }

  std::string_view takeString(const char *what) {
    auto length = take<uint64_t>(what);
    if (length > left())
      fail(std::string("truncated in ") + what + " (a string of " +
           std::to_string(length) + " bytes)");
    std::string_view text(position, length);
    position += length;
    return text;
  }

  void parseKey() {
    std::string_view key = takeString("the name of a key");
    std::string what = "the value of '" + std::string(key) + "'";
    auto type = static_cast<GgufType>(take<uint32_t>(what.c_str()));
    Gguf::Value value{type, type == GgufType::Array, 1, position};
    if (value.isArray) {
      value.type = static_cast<GgufType>(take<uint32_t>(what.c_str()));
      value.count = take<uint64_t>(what.c_str());
      value.position = position;
    }
    if (value.type == GgufType::String) {
      // Each string takes at least its length field.
      if (value.count > left() / 8)
        fail("truncated in " + what);
      for (uint64_t i = 0; i < value.count; ++i)
        takeString(what.c_str());
    } else {
      size_t size = scalarSize(value.type);
      if (size == 0)
        fail(what + " has the unsupported type " +
             std::to_string(static_cast<uint32_t>(value.type)));
      if (value.count > left() / size)
        fail("truncated in " + what);
      position += value.count * size;
    }
    if (!gguf.values.emplace(key, value).second)
      fail("key '" + std::string(key) + "' occurs twice");
  }

  void parseTensors(uint64_t count) {
    // The smallest entry: empty name, no dimensions, type, offset.
    if (count > left() / 24)
      fail("truncated in the tensor table (" + std::to_string(count) +
           " tensors)");
    gguf.tensorTable.reserve(count);
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < count; ++i) {
      GgufTensor tensor{};
      tensor.name = takeString("the name of a tensor");
      std::string what = "tensor '" + std::string(tensor.name) + "'";
      auto rank = take<uint32_t>(what.c_str());
      if (rank > 4)
        fail(what + " has " + std::to_string(rank) +
             " dimensions (at most 4 are allowed)");
      for (uint32_t d = 0; d < rank; ++d) {
        auto size = take<uint64_t>(what.c_str());
        if (size > INT64_MAX)
          fail(what + " has a dimension of " + std::to_string(size));
        tensor.sizes.push_back(static_cast<int64_t>(size));
      }
      tensor.type = take<uint32_t>(what.c_str());
      tensor.byteSize = byteSize(tensor, what);
      // The file lists the contiguous dimension first.
      std::reverse(tensor.sizes.begin(), tensor.sizes.end());
      offsets.push_back(take<uint64_t>(what.c_str()));
      gguf.tensorTable.push_back(std::move(tensor));
    }
    locateTensors(offsets);
  }

  int64_t byteSize(const GgufTensor &tensor, const std::string &what) const {
    const auto *block = std::find_if(
        std::begin(BlockSizes), std::end(BlockSizes),
        [&](const BlockSize &size) { return size.type == tensor.type; });
    if (block == std::end(BlockSizes))
      fail(what + " has the unknown type " + std::to_string(tensor.type));
    int64_t count = 1, row = tensor.sizes.empty() ? 1 : tensor.sizes.front();
    bool overflow = false;
    for (int64_t size : tensor.sizes)
      overflow |= __builtin_mul_overflow(count, size, &count);
    if (row % block->elements != 0)
      fail(what + " has rows of " + std::to_string(row) +
           " elements, not a multiple of its block of " +
           std::to_string(block->elements));
    int64_t bytes;
    overflow |=
        __builtin_mul_overflow(count / block->elements, block->bytes, &bytes);
    if (overflow)
      fail(what + " is larger than the address space");
    return bytes;
  }

  void locateTensors(const std::vector<uint64_t> &offsets) {
    int64_t alignment = gguf.getInt("general.alignment").value_or(32);
    if (alignment < 1 || alignment > (1 << 30) ||
        (alignment & (alignment - 1)) != 0)
      fail("general.alignment " + std::to_string(alignment) +
           " is not a power of two");
    size_t used = static_cast<size_t>(position - gguf.file.data());
    size_t data = (used + alignment - 1) / alignment * alignment;
    size_t available = gguf.file.size() > data ? gguf.file.size() - data : 0;
    for (size_t i = 0; i < offsets.size(); ++i) {
      GgufTensor &tensor = gguf.tensorTable[i];
      std::string what = "tensor '" + std::string(tensor.name) + "'";
      if (offsets[i] % alignment != 0)
        fail(what + " is not aligned to " + std::to_string(alignment) +
             " bytes");
      if (offsets[i] > available ||
          static_cast<uint64_t>(tensor.byteSize) > available - offsets[i])
        fail(what + " (" + std::to_string(tensor.byteSize) +
             " bytes) reaches beyond the end of the file; it is truncated or "
             "malformed");
      tensor.data = gguf.file.data() + data + offsets[i];
      if (!gguf.tensorIndex.emplace(tensor.name, i).second)
        fail(what + " occurs twice");
    }
  }

  Gguf &gguf;
  const char *position;
  const char *end;
};

} // namespace buddy

Gguf Gguf::open(const std::string &path) {
  Gguf result;
  result.file = MappedFile(path);
  GgufParser(result).parse();
  return result;
}

const Gguf::Value *Gguf::find(std::string_view key, bool isArray) const {
  auto it = values.find(key);
  if (it == values.end())
    return nullptr;
  if (it->second.isArray != isArray)
    wrongType(key);
  return &it->second;
}

void Gguf::wrongType(std::string_view key) const {
  throw Error(BUDDY_E_FORMAT,
              path() + ": key '" + std::string(key) + "' has the wrong type");
}

int64_t Gguf::integerAt(std::string_view key, const Value &value,
                        const char *position) const {
  switch (value.type) {
  case GgufType::UInt8:
  case GgufType::Bool:
    return load<uint8_t>(position);
  case GgufType::Int8:
    return load<int8_t>(position);
  case GgufType::UInt16:
    return load<uint16_t>(position);
  case GgufType::Int16:
    return load<int16_t>(position);
  case GgufType::UInt32:
    return load<uint32_t>(position);
  case GgufType::Int32:
    return load<int32_t>(position);
  case GgufType::Int64:
    return load<int64_t>(position);
  case GgufType::UInt64: {
    auto number = load<uint64_t>(position);
    if (number <= INT64_MAX)
      return static_cast<int64_t>(number);
    break;
  }
  default:
    break;
  }
  wrongType(key);
}

double Gguf::numberAt(std::string_view key, const Value &value,
                      const char *position) const {
  if (value.type == GgufType::Float32)
    return load<float>(position);
  if (value.type == GgufType::Float64)
    return load<double>(position);
  return static_cast<double>(integerAt(key, value, position));
}

std::optional<std::string_view> Gguf::getString(std::string_view key) const {
  const Value *value = find(key, false);
  if (!value)
    return std::nullopt;
  if (value->type != GgufType::String)
    wrongType(key);
  const char *position = value->position;
  return checkedString(position);
}

std::optional<int64_t> Gguf::getInt(std::string_view key) const {
  const Value *value = find(key, false);
  if (!value)
    return std::nullopt;
  return integerAt(key, *value, value->position);
}

std::optional<bool> Gguf::getBool(std::string_view key) const {
  auto value = getInt(key);
  if (!value)
    return std::nullopt;
  return *value != 0;
}

std::optional<double> Gguf::getFloat(std::string_view key) const {
  const Value *value = find(key, false);
  if (!value)
    return std::nullopt;
  return numberAt(key, *value, value->position);
}

std::optional<std::vector<std::string_view>>
Gguf::getStrings(std::string_view key) const {
  const Value *value = find(key, true);
  if (!value)
    return std::nullopt;
  if (value->type != GgufType::String)
    wrongType(key);
  std::vector<std::string_view> result;
  result.reserve(value->count);
  const char *position = value->position;
  for (uint64_t i = 0; i < value->count; ++i)
    result.push_back(checkedString(position));
  return result;
}

std::optional<std::vector<int64_t>> Gguf::getInts(std::string_view key) const {
  const Value *value = find(key, true);
  if (!value)
    return std::nullopt;
  std::vector<int64_t> result;
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i)
    result.push_back(
        integerAt(key, *value, value->position + i * scalarSize(value->type)));
  return result;
}

std::optional<std::vector<float>> Gguf::getFloats(std::string_view key) const {
  const Value *value = find(key, true);
  if (!value)
    return std::nullopt;
  std::vector<float> result;
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i)
    result.push_back(static_cast<float>(
        numberAt(key, *value, value->position + i * scalarSize(value->type))));
  return result;
}

const GgufTensor *Gguf::findTensor(std::string_view name) const {
  auto it = tensorIndex.find(name);
  return it == tensorIndex.end() ? nullptr : &tensorTable[it->second];
}
