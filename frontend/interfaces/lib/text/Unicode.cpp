//===- Unicode.cpp - UTF-8 ------------------------------------------------===//

#include "Unicode.h"

#include <cstdint>
#include <cstring>

using namespace buddy::text;

namespace {

/// A scanned sequence: how many bytes, and whether they are one character, a
/// prefix of one that the text's end cut off, or neither.
struct Scan {
  enum Kind { Whole, Prefix, Bad } kind;
  size_t length;
};

/// Well-formed sequences by the Unicode Standard, table 3-7.
Scan scan(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned lead = byte(0);
  if (lead < 0x80)
    return {Scan::Whole, 1};
  size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4)
    return {Scan::Bad, 1};
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size())
      return {Scan::Prefix, i};
    if (byte(i) < low || byte(i) > high)
      return {Scan::Bad, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Scan::Whole, length};
}

} // namespace

size_t buddy::text::findInvalidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    // Most text is ASCII: eight bytes at a time.
    uint64_t word;
    if (at + 8 <= text.size()) {
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    Scan result = scan(text.substr(at));
    if (result.kind != Scan::Whole)
      return at;
    at += result.length;
  }
  return std::string_view::npos;
}

char32_t buddy::text::nextCodePoint(std::string_view text, size_t &position) {
  auto byte = [&](size_t i) {
    return static_cast<char32_t>(
        static_cast<unsigned char>(text[position + i]));
  };
  char32_t lead = byte(0);
  size_t length = utf8Length(text[position]);
  char32_t result = lead;
  if (length == 2)
    result = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  else if (length == 3)
    result = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  else if (length == 4)
    result = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 |
             (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  position += length;
  return result;
}

void buddy::text::appendUtf8(std::string &text, char32_t c) {
  auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

void buddy::text::takeUtf8(std::string &bytes, std::string &text,
                           Invalid policy, bool flush) {
  size_t at = 0;
  while (at < bytes.size()) {
    Scan result = scan(std::string_view(bytes).substr(at));
    if (result.kind == Scan::Whole) {
      text.append(bytes, at, result.length);
    } else {
      if (result.kind == Scan::Prefix && !flush)
        break;
      if (policy == Invalid::PerByte)
        result.length = 1;
      text += ReplacementCharacter;
    }
    at += result.length;
  }
  bytes.erase(0, at);
}
