//===- Unicode.h - UTF-8 ----------------------------------------*- C++ -*-===//
//
// All text inside the tokenizer is valid UTF-8: it is checked where it enters.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_UNICODE_H
#define BUDDY_LIB_TEXT_UNICODE_H

#include <cstddef>
#include <string>
#include <string_view>

namespace buddy::text {

/// Byte offset of the first ill-formed sequence; npos if there is none.
size_t findInvalidUtf8(std::string_view text);

/// The code point at `position` of valid UTF-8; moves past it.
char32_t nextCodePoint(std::string_view text, size_t &position);

void appendUtf8(std::string &text, char32_t codePoint);

/// Bytes of the character that `lead`, a lead byte of valid UTF-8, begins.
inline size_t utf8Length(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// U+FFFD, which stands for what is not UTF-8.
constexpr std::string_view ReplacementCharacter = "\xEF\xBF\xBD";

/// The space symbol of SentencePiece, U+2581.
constexpr std::string_view SpaceSymbol = "\xE2\x96\x81";

/// What a decoder does with bytes that are not UTF-8.
enum class Invalid {
  PerSubpart, ///< One U+FFFD for each maximal subpart (Unicode, table 3-8).
  PerByte,    ///< One U+FFFD for each byte.
};

/// Moves the whole characters at the front of `bytes` to `text`, replacing what
/// is ill-formed.  What may still become a character stays in `bytes`, unless
/// `flush`.
void takeUtf8(std::string &bytes, std::string &text, Invalid policy,
              bool flush);

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_UNICODE_H
