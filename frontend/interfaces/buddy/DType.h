//===- DType.h - Element types ----------------------------------*- C++ -*-===//
//
// The dtypes of weights files and bundles, and the C++ types that hold them.
// Half-precision numbers are stored, not computed with, so two structs with
// conversions to and from float do.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_DTYPE_H
#define BUDDY_DTYPE_H

#include <complex>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace buddy {

enum class DType {
  Bool,
  U8,
  I8,
  F8E4M3,
  F8E5M2,
  U16,
  I16,
  F16,
  BF16,
  U32,
  I32,
  F32,
  U64,
  I64,
  F64,
  C64, ///< A pair of float.
};

namespace detail {
struct DTypeEntry {
  DType dtype;
  std::string_view name;
  int64_t byteSize;
};
/// Spelled as safetensors does; in the order of the enumeration.
inline constexpr DTypeEntry DTypeTable[] = {
    {DType::Bool, "BOOL", 1},      {DType::U8, "U8", 1},
    {DType::I8, "I8", 1},          {DType::F8E4M3, "F8_E4M3", 1},
    {DType::F8E5M2, "F8_E5M2", 1}, {DType::U16, "U16", 2},
    {DType::I16, "I16", 2},        {DType::F16, "F16", 2},
    {DType::BF16, "BF16", 2},      {DType::U32, "U32", 4},
    {DType::I32, "I32", 4},        {DType::F32, "F32", 4},
    {DType::U64, "U64", 8},        {DType::I64, "I64", 8},
    {DType::F64, "F64", 8},        {DType::C64, "C64", 8}};
} // namespace detail

/// Bytes of an element.
constexpr int64_t byteSizeOf(DType dtype) {
  return detail::DTypeTable[static_cast<int>(dtype)].byteSize;
}
/// As safetensors spells it.
constexpr std::string_view nameOf(DType dtype) {
  return detail::DTypeTable[static_cast<int>(dtype)].name;
}
/// Nothing if no dtype has this name.
constexpr std::optional<DType> dtypeFromName(std::string_view name) {
  for (const auto &entry : detail::DTypeTable)
    if (entry.name == name)
      return entry.dtype;
  return std::nullopt;
}

/// bfloat16: the upper half of a float.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays a NaN.
  explicit BFloat16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    if ((word & 0x7FFFFFFF) > 0x7F800000)
      bits = static_cast<uint16_t>(word >> 16 | 0x40);
    else
      bits = static_cast<uint16_t>((word + 0x7FFF + (word >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

/// IEEE binary16.
struct Float16 {
  uint16_t bits;

  Float16() = default;
  /// Rounds to nearest, ties to even; a NaN stays a NaN.
  explicit Float16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    uint32_t sign = word >> 16 & 0x8000;
    uint32_t magnitude = word & 0x7FFFFFFF;
    uint32_t half;
    if (magnitude > 0x7F800000) {
      half = 0x7E00;
    } else if (magnitude >= 0x47800000) { // 65536 and above.
      half = 0x7C00;
    } else if (magnitude < 0x38800000) { // Below 2^-14: subnormal or zero.
      // Adding 0.5 lets the float adder round at the place of 2^-24.
      float shifted;
      std::memcpy(&shifted, &magnitude, 4);
      shifted += 0.5f;
      std::memcpy(&half, &shifted, 4);
      half -= 0x3F000000;
    } else {
      uint32_t odd = magnitude >> 13 & 1;
      half = (magnitude - 0x38000000 + 0xFFF + odd) >> 13;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  explicit operator float() const {
    uint32_t magnitude = bits & 0x7FFF;
    uint32_t word;
    if (magnitude >= 0x7C00) {
      word = 0x7F800000 | (magnitude & 0x3FF) << 13;
    } else if (magnitude >= 0x400) {
      word = (magnitude << 13) + 0x38000000;
    } else {
      float small = static_cast<float>(magnitude) * 0x1p-24f;
      std::memcpy(&word, &small, 4);
    }
    word |= static_cast<uint32_t>(bits & 0x8000) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

/// The dtype that a C++ type holds.
template <typename T> struct DTypeOf;
#define BUDDY_DTYPE(type, enumerator)                                          \
  template <> struct DTypeOf<type> {                                           \
    static constexpr DType value = DType::enumerator;                          \
  }
BUDDY_DTYPE(bool, Bool);
BUDDY_DTYPE(uint8_t, U8);
BUDDY_DTYPE(int8_t, I8);
BUDDY_DTYPE(uint16_t, U16);
BUDDY_DTYPE(int16_t, I16);
BUDDY_DTYPE(Float16, F16);
BUDDY_DTYPE(BFloat16, BF16);
BUDDY_DTYPE(uint32_t, U32);
BUDDY_DTYPE(int32_t, I32);
BUDDY_DTYPE(float, F32);
BUDDY_DTYPE(uint64_t, U64);
BUDDY_DTYPE(int64_t, I64);
BUDDY_DTYPE(double, F64);
BUDDY_DTYPE(std::complex<float>, C64);
#undef BUDDY_DTYPE

} // namespace buddy

#endif // BUDDY_DTYPE_H
