//===- Normalizer.h - Text normalizers --------------------------*- C++ -*-===//
//
// The normalizers of tokenizer.json, with the meaning that Hugging Face's
// `tokenizers` gives them.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_NORMALIZER_H
#define BUDDY_LIB_TEXT_NORMALIZER_H

#include "Regex.h"

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

/// What BERT does to text before it looks for words.
struct BertNormalizerOptions {
  bool cleanText = true;          ///< Control characters go, spaces become ' '.
  bool handleChineseChars = true; ///< Spaces around each ideograph.
  bool stripAccents = true;
  bool lowercase = true;
};

/// Rewrites valid UTF-8 into valid UTF-8.
class Normalizer {
public:
  /// Does nothing.
  Normalizer() = default;

  /// From the "normalizer" value of a tokenizer.json, which may be null.
  /// Throws buddy::Error naming an unknown type.
  explicit Normalizer(const nlohmann::json &spec);

  static Normalizer nfc();
  static Normalizer bert(const BertNormalizerOptions &options);

  /// Returns whether the text has lost its first character: what is left does
  /// not begin where the whole text begins.
  bool apply(std::string &text) const {
    bool cutsFront = false;
    for (const auto &step : steps)
      cutsFront |= step(text);
    return cutsFront;
  }

  bool empty() const { return steps.empty(); }

private:
  void add(const nlohmann::json &spec);
  void addBert(const BertNormalizerOptions &options);
  /// Each returns what `apply` returns.
  std::vector<std::function<bool(std::string &)>> steps;
};

/// The pattern of a Split or Replace component: {"Regex": …} or
/// {"String": …}.  `owner` is named in errors.
Regex patternFromJson(const nlohmann::json &spec, const std::string &owner);

/// Replaces every match by `content`.  Returns whether a match at the front was
/// replaced by nothing.
bool replaceAll(std::string &text, const Regex &pattern,
                std::string_view content);

/// GPT-2's map of bytes to printable characters (encoder.py of openai/gpt-2).
const std::string &byteLevelCharacter(unsigned char byte);
/// Its inverse: the byte of a character, or -1.
int byteOfCharacter(char32_t character);

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_NORMALIZER_H
