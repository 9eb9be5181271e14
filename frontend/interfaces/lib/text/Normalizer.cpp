//===- Normalizer.cpp - Text normalizers ----------------------------------===//

#include "Normalizer.h"
#include "JsonAccess.h"
#include "Unicode.h"

#include <array>
#include <memory>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <utility>

using namespace buddy;
using namespace buddy::text;

namespace {

using Step = std::function<void(std::string &)>;

Step unicodeForm(const char *data, UNormalization2Mode mode) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2 *form =
      icu::Normalizer2::getInstance(nullptr, data, mode, status);
  if (U_FAILURE(status))
    throw Error(BUDDY_E_UNSUPPORTED, std::string("ICU has no normalization "
                                                 "data '") +
                                         data + "': " + u_errorName(status));
  return [form](std::string &text) {
    icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
    UErrorCode status = U_ZERO_ERROR;
    if (form->isNormalizedUTF8(piece, status) && U_SUCCESS(status))
      return;
    std::string result;
    icu::StringByteSink<std::string> sink(&result);
    status = U_ZERO_ERROR;
    form->normalizeUTF8(0, piece, sink, nullptr, status);
    if (U_FAILURE(status))
      throw Error(BUDDY_E_ARGUMENT,
                  std::string("ICU cannot normalize: ") + u_errorName(status));
    text = std::move(result);
  };
}

/// A step that rewrites each character by itself.
template <typename Function> Step mapCharacters(Function function) {
  return [function](std::string &text) {
    std::string result;
    result.reserve(text.size());
    for (size_t at = 0; at < text.size();)
      function(nextCodePoint(text, at), result);
    text = std::move(result);
  };
}

void appendLowercase(char32_t c, std::string &out) {
  // The only unconditional mapping of one character to two (SpecialCasing.txt).
  if (c == 0x130) {
    out += "i\xCC\x87";
    return;
  }
  appendUtf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

void appendUnlessMark(char32_t c, std::string &out) {
  if (!(U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_M_MASK))
    appendUtf8(out, c);
}

Step strip(bool left, bool right) {
  return [left, right](std::string &text) {
    size_t begin = 0, end = text.size();
    while (left && begin < end) {
      size_t next = begin;
      if (!u_isUWhiteSpace(static_cast<UChar32>(nextCodePoint(text, next))))
        break;
      begin = next;
    }
    while (right && end > begin) {
      size_t previous = end - 1;
      while ((static_cast<unsigned char>(text[previous]) & 0xC0) == 0x80)
        --previous;
      size_t at = previous;
      if (!u_isUWhiteSpace(static_cast<UChar32>(nextCodePoint(text, at))))
        break;
      end = previous;
    }
    text = text.substr(begin, end - begin);
  };
}

} // namespace

Normalizer::Normalizer(const nlohmann::json &spec) {
  if (!spec.is_null())
    add(spec);
}

Normalizer Normalizer::nfc() {
  Normalizer result;
  result.steps.push_back(unicodeForm("nfc", UNORM2_COMPOSE));
  return result;
}

void Normalizer::add(const nlohmann::json &spec) {
  const std::string kind = "normalizer";
  std::string type = componentType(spec, kind);
  std::string owner = kind + " " + type;
  if (type == "Sequence") {
    for (const auto &part : getArray(spec, "normalizers", owner))
      add(part);
  } else if (type == "NFC") {
    steps.push_back(unicodeForm("nfc", UNORM2_COMPOSE));
  } else if (type == "NFD") {
    steps.push_back(unicodeForm("nfc", UNORM2_DECOMPOSE));
  } else if (type == "NFKC") {
    steps.push_back(unicodeForm("nfkc", UNORM2_COMPOSE));
  } else if (type == "NFKD") {
    steps.push_back(unicodeForm("nfkc", UNORM2_DECOMPOSE));
  } else if (type == "Lowercase") {
    steps.push_back(mapCharacters(appendLowercase));
  } else if (type == "StripAccents") {
    steps.push_back(mapCharacters(appendUnlessMark));
  } else if (type == "Strip") {
    steps.push_back(strip(getBool(spec, "strip_left", false, owner),
                          getBool(spec, "strip_right", false, owner)));
  } else if (type == "ByteLevel") {
    steps.push_back([](std::string &text) {
      std::string result;
      result.reserve(2 * text.size());
      for (char c : text)
        result += byteLevelCharacter(static_cast<unsigned char>(c));
      text = std::move(result);
    });
  } else if (type == "Prepend") {
    std::string prefix = getString(spec, "prepend", owner);
    steps.push_back([prefix](std::string &text) {
      if (!text.empty())
        text.insert(0, prefix);
    });
  } else if (type == "Replace") {
    auto pattern = std::make_shared<const Regex>(
        patternFromJson(fieldOrNull(spec, "pattern"), owner));
    std::string content = getString(spec, "content", owner);
    steps.push_back([pattern, content](std::string &text) {
      replaceAll(text, *pattern, content);
    });
  } else {
    failUnknown(kind, type);
  }
}

Regex buddy::text::patternFromJson(const nlohmann::json &spec,
                                   const std::string &owner) {
  const nlohmann::json &regex = fieldOrNull(spec, "Regex");
  if (regex.is_string())
    return Regex(regex.get_ref<const std::string &>());
  const nlohmann::json &literal = fieldOrNull(spec, "String");
  if (literal.is_string())
    return Regex::literal(literal.get_ref<const std::string &>());
  failField(owner, "pattern");
}

void buddy::text::replaceAll(std::string &text, const Regex &pattern,
                             std::string_view content) {
  std::vector<std::pair<size_t, size_t>> matches;
  pattern.findAll(text, matches);
  if (matches.empty())
    return;
  std::string result;
  size_t from = 0;
  for (auto [begin, end] : matches) {
    result.append(text, from, begin - from);
    result += content;
    from = end;
  }
  result.append(text, from);
  text = std::move(result);
}

namespace {

/// Printable bytes of Latin-1 stand for themselves, the others for the
/// characters from U+0100 on, in order.
struct ByteLevelTable {
  std::array<std::string, 256> characters;
  std::array<int, 0x200> bytes;

  ByteLevelTable() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      bool printable =
          (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      char32_t character = printable ? byte : next++;
      appendUtf8(characters[byte], character);
      bytes[character] = static_cast<int>(byte);
    }
  }
};

const ByteLevelTable &byteLevelTable() {
  static const ByteLevelTable table;
  return table;
}

} // namespace

const std::string &buddy::text::byteLevelCharacter(unsigned char byte) {
  return byteLevelTable().characters[byte];
}

int buddy::text::byteOfCharacter(char32_t character) {
  return character < 0x200 ? byteLevelTable().bytes[character] : -1;
}
