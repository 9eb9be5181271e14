//===- Normalizer.cpp - Text normalizers ----------------------------------===//

#include "Normalizer.h"
#include "Categories.h"
#include "CharsMap.h"
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

using Step = std::function<bool(std::string &)>;

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
      return false;
    std::string result;
    icu::StringByteSink<std::string> sink(&result);
    status = U_ZERO_ERROR;
    form->normalizeUTF8(0, piece, sink, nullptr, status);
    if (U_FAILURE(status))
      throw Error(BUDDY_E_ARGUMENT,
                  std::string("ICU cannot normalize: ") + u_errorName(status));
    text = std::move(result);
    return false;
  };
}

/// A step that rewrites each character by itself.
template <typename Function> Step mapCharacters(Function function) {
  return [function](std::string &text) {
    std::string result;
    result.reserve(text.size());
    bool cutsFront = false;
    for (size_t at = 0; at < text.size();) {
      bool isFirst = at == 0;
      function(nextCodePoint(text, at), result);
      cutsFront |= isFirst && result.empty();
    }
    text = std::move(result);
    return cutsFront;
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

/// BERT's cleaning.  Tab, newline and return count as white space, not as
/// control characters.
void appendCleaned(char32_t c, std::string &out) {
  if (c == '\t' || c == '\n' || c == '\r') {
    out += ' ';
    return;
  }
  constexpr uint32_t Control = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
  if (c == 0xFFFD || (categoryMask(c) & Control))
    return;
  if (isSpace(c))
    out += ' ';
  else
    appendUtf8(out, c);
}

/// The blocks of ideographs that BERT knows; `tokenizers` leaves out the first
/// 256 of Extension E.
bool isIdeograph(char32_t c) {
  static constexpr std::pair<char32_t, char32_t> Blocks[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
      {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
      {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  for (auto [first, last] : Blocks)
    if (c >= first && c <= last)
      return true;
  return false;
}

void appendSpaced(char32_t c, std::string &out) {
  bool spaced = isIdeograph(c);
  if (spaced)
    out += ' ';
  appendUtf8(out, c);
  if (spaced)
    out += ' ';
}

void appendUnlessNonspacing(char32_t c, std::string &out) {
  if (categoryMask(c) != U_GC_MN_MASK)
    appendUtf8(out, c);
}

/// SentencePiece's nmt rules: some control characters go, others and some that
/// look like nothing are spaces.
void appendNmt(char32_t c, std::string &out) {
  bool isControl = (c >= 0x01 && c <= 0x08) || c == 0x0B ||
                   (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
                   c == 0x9F;
  bool isBlank = c == '\t' || c == '\n' || c == '\f' || c == '\r' ||
                 c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
                 c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  if (isBlank)
    out += ' ';
  else if (!isControl)
    appendUtf8(out, c);
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
      if (!isSpace(nextCodePoint(text, next)))
        break;
      begin = next;
    }
    while (right && end > begin) {
      size_t previous = end - 1;
      while ((static_cast<unsigned char>(text[previous]) & 0xC0) == 0x80)
        --previous;
      size_t at = previous;
      if (!isSpace(nextCodePoint(text, at)))
        break;
      end = previous;
    }
    text = text.substr(begin, end - begin);
    return begin > 0;
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

Normalizer Normalizer::bert(const BertNormalizerOptions &options) {
  Normalizer result;
  result.addBert(options);
  return result;
}

void Normalizer::addBert(const BertNormalizerOptions &options) {
  if (options.cleanText)
    steps.push_back(mapCharacters(appendCleaned));
  if (options.handleChineseChars)
    steps.push_back(mapCharacters(appendSpaced));
  if (options.stripAccents) {
    steps.push_back(unicodeForm("nfc", UNORM2_DECOMPOSE));
    steps.push_back(mapCharacters(appendUnlessNonspacing));
  }
  if (options.lowercase)
    steps.push_back(mapCharacters(appendLowercase));
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
  } else if (type == "Nmt") {
    steps.push_back(mapCharacters(appendNmt));
  } else if (type == "BertNormalizer") {
    BertNormalizerOptions options;
    options.cleanText = getBool(spec, "clean_text", true, owner);
    options.handleChineseChars =
        getBool(spec, "handle_chinese_chars", true, owner);
    options.lowercase = getBool(spec, "lowercase", true, owner);
    options.stripAccents =
        getBool(spec, "strip_accents", options.lowercase, owner);
    addBert(options);
  } else if (type == "Precompiled") {
    auto map = std::make_shared<const CharsMap>(CharsMap::fromBase64(
        getString(spec, "precompiled_charsmap", owner), owner));
    steps.push_back([map](std::string &text) {
      map->apply(text);
      // What it cuts off counts as being there still.
      return false;
    });
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
      return false;
    });
  } else if (type == "Prepend") {
    std::string prefix = getString(spec, "prepend", owner);
    steps.push_back([prefix](std::string &text) {
      if (!text.empty())
        text.insert(0, prefix);
      return false;
    });
  } else if (type == "Replace") {
    auto pattern = std::make_shared<const Regex>(
        patternFromJson(fieldOrNull(spec, "pattern"), owner));
    std::string content = getString(spec, "content", owner);
    steps.push_back([pattern, content](std::string &text) {
      return replaceAll(text, *pattern, content);
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

bool buddy::text::replaceAll(std::string &text, const Regex &pattern,
                             std::string_view content) {
  std::vector<std::pair<size_t, size_t>> matches;
  pattern.findAll(text, matches);
  if (matches.empty())
    return false;
  std::string result;
  size_t from = 0;
  for (auto [begin, end] : matches) {
    result.append(text, from, begin - from);
    result += content;
    from = end;
  }
  result.append(text, from);
  text = std::move(result);
  return content.empty() && matches[0].first == 0 && matches[0].second > 0;
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
