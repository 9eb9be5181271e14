//===- Weights.cpp - Memory-mapped safetensors files ----------------------===//

#include "buddy/Weights.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace buddy;
using nlohmann::json;

namespace {

/// The limit of the reference implementation.
constexpr uint64_t MaxHeaderSize = 100'000'000;

[[noreturn]] void fail(const std::string &path, const std::string &what) {
  throw Error(BUDDY_E_FORMAT, path + ": " + what);
}

/// Reads one entry of the header; `what` names file and tensor.
WeightInfo parseEntry(const json &entry, int64_t sectionSize,
                      const std::string &path, const std::string &what) {
  auto field = [&](const char *name) -> const json & {
    auto it = entry.is_object() ? entry.find(name) : entry.end();
    if (!entry.is_object() || it == entry.end())
      fail(path, what + " has no " + name);
    return *it;
  };
  auto count = [&](const json &value, const char *name) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
      fail(path, what + " has a malformed " + name);
    return static_cast<int64_t>(value.get<uint64_t>());
  };

  WeightInfo info{};
  const json &dtypeName = field("dtype");
  if (!dtypeName.is_string())
    fail(path, what + " has a malformed dtype");
  auto dtype = dtypeFromName(dtypeName.get_ref<const std::string &>());
  if (!dtype)
    throw Error(BUDDY_E_UNSUPPORTED, path + ": " + what + " has the dtype " +
                                         dtypeName.get<std::string>() +
                                         ", which is not supported");
  info.dtype = *dtype;

  const json &shape = field("shape");
  if (!shape.is_array())
    fail(path, what + " has a malformed shape");
  int64_t bytes = byteSizeOf(*dtype);
  bool overflow = false, hasZero = false;
  for (const json &size : shape) {
    info.sizes.push_back(count(size, "shape"));
    hasZero |= info.sizes.back() == 0;
    overflow |= __builtin_mul_overflow(bytes, info.sizes.back(), &bytes);
  }
  if (overflow && !hasZero)
    fail(path, what + " has a shape larger than the address space");
  info.byteSize = hasZero ? 0 : bytes;

  const json &offsets = field("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    fail(path, what + " has malformed data_offsets");
  info.offset = count(offsets[0], "data_offsets");
  int64_t end = count(offsets[1], "data_offsets");
  if (end < info.offset)
    fail(path, what + " ends before it begins");
  if (end > sectionSize)
    fail(path, what + " ends at byte " + std::to_string(end) +
                   " of a data section of " + std::to_string(sectionSize) +
                   " bytes; the file is truncated or malformed");
  if (end - info.offset != info.byteSize)
    fail(path, what + " takes " + std::to_string(end - info.offset) +
                   " bytes, but its dtype and shape need " +
                   std::to_string(info.byteSize));
  return info;
}

} // namespace

Weights Weights::open(const std::string &path) {
  Weights result;
  result.file = MappedFile(path);
  size_t fileSize = result.file.size();
  if (fileSize < 8)
    fail(path, "not a safetensors file (shorter than its header)");
  uint64_t headerSize;
  std::memcpy(&headerSize, result.file.data(), 8);
  if (headerSize > MaxHeaderSize)
    fail(path, "not a safetensors file (a header of " +
                   std::to_string(headerSize) + " bytes)");
  if (headerSize > fileSize - 8)
    fail(path, "truncated in the header (" + std::to_string(headerSize) +
                   " bytes announced, " + std::to_string(fileSize - 8) +
                   " there)");
  result.section = result.file.data() + 8 + headerSize;
  result.sectionSize = static_cast<int64_t>(fileSize - 8 - headerSize);
  result.parseHeader({result.file.data() + 8, headerSize});
  return result;
}

void Weights::parseHeader(std::string_view header) {
  if (header.empty() || header.front() != '{')
    fail(path(), "not a safetensors file (the header is no JSON object)");
  json root;
  try {
    root = json::parse(header.begin(), header.end());
  } catch (const json::exception &error) {
    fail(path(), std::string("malformed header: ") + error.what());
  }
  std::vector<std::pair<const WeightInfo *, const std::string *>> byOffset;
  for (const auto &[name, entry] : root.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        fail(path(), "malformed __metadata__");
      for (const auto &[key, value] : entry.items()) {
        if (!value.is_string())
          fail(path(), "__metadata__ '" + key + "' is not a string");
        notes.emplace(key, value.get<std::string>());
      }
      continue;
    }
    auto [it, isNew] = table.emplace(
        name, parseEntry(entry, sectionSize, path(), "tensor '" + name + "'"));
    byOffset.emplace_back(&it->second, &it->first);
  }
  // The format allows neither overlaps nor holes.
  std::sort(byOffset.begin(), byOffset.end(), [](auto &a, auto &b) {
    return a.first->offset != b.first->offset
               ? a.first->offset < b.first->offset
               : a.first->byteSize < b.first->byteSize;
  });
  int64_t end = 0;
  for (auto [info, name] : byOffset) {
    if (info->offset < end)
      fail(path(), "tensor '" + *name + "' overlaps with another");
    if (info->offset > end)
      fail(path(), "a hole in the data before tensor '" + *name + "'");
    end += info->byteSize;
  }
  if (end != sectionSize)
    fail(path(),
         std::to_string(sectionSize - end) + " bytes after the last tensor");
}

const WeightInfo &Weights::info(std::string_view name) const {
  auto it = table.find(name);
  if (it == table.end())
    throw Error(BUDDY_E_ARGUMENT,
                path() + ": no tensor '" + std::string(name) + "'");
  return it->second;
}

void Weights::checkTensor(std::string_view name, const WeightInfo &info,
                          DType dtype, int rank, size_t alignment) const {
  std::string what = path() + ": tensor '" + std::string(name) + "' ";
  if (info.dtype != dtype)
    throw Error(BUDDY_E_SHAPE, what + "has the dtype " +
                                   std::string(nameOf(info.dtype)) + ", not " +
                                   std::string(nameOf(dtype)));
  if (static_cast<int>(info.sizes.size()) != rank)
    throw Error(BUDDY_E_SHAPE, what + "has the rank " +
                                   std::to_string(info.sizes.size()) +
                                   ", not " + std::to_string(rank));
  if (reinterpret_cast<uintptr_t>(section + info.offset) % alignment != 0)
    throw Error(BUDDY_E_SHAPE, what + "is not aligned to " +
                                   std::to_string(alignment) + " bytes");
}
