//===- AddedTokens.h - Tokens matched before the model ----------*- C++ -*-===//
//
// Added and special tokens are cut out of the text before the model sees it,
// as Hugging Face's `tokenizers` does (added_vocabulary.rs): first those that
// match the raw text, then, in the normalized rest, the others.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_ADDEDTOKENS_H
#define BUDDY_LIB_TEXT_ADDEDTOKENS_H

#include "Normalizer.h"
#include "Trie.h"

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;    ///< Left out when decoding skips special tokens.
  bool singleWord = false; ///< No match inside a word.
  bool lstrip = false;     ///< Takes the white space on its left.
  bool rstrip = false;     ///< Takes the white space on its right.
  bool normalized = false; ///< Matches the normalized text.

  /// From an entry of tokenizer.json's "added_tokens".  Throws buddy::Error if
  /// a field is malformed or `id` is out of range.
  static AddedToken fromJson(const nlohmann::json &spec, int64_t id);
};

/// A part of the text: an added token, or what lies between two.
struct Segment {
  std::string_view text;
  const AddedToken *token; ///< Null between tokens.
  bool isFirst;            ///< Whether it begins where the whole text begins.
};

/// Finds the leftmost longest of a set of strings.
class StringMatcher {
public:
  StringMatcher() = default;
  explicit StringMatcher(std::vector<Trie::Entry> strings);
  bool empty() const { return trie.empty(); }

  struct Match {
    size_t begin, end;
    int32_t value;
  };
  /// The first match at or after `from`.
  std::optional<Match> find(std::string_view text, size_t from) const;

private:
  Trie trie;
  bool canBegin[256] = {}; ///< Most positions are ruled out by one look-up.
};

class AddedTokens {
public:
  /// Later tokens of the same content are ignored.
  void add(AddedToken token);

  /// Call once all are added; `normalizer` is the tokenizer's.
  void finish(const Normalizer &normalizer);

  const AddedToken *find(int32_t id) const;
  const AddedToken *find(std::string_view content) const;
  const std::vector<AddedToken> &all() const { return tokens; }

  /// Cuts the text at the tokens that match it raw (`normalized` false) or
  /// normalized.  Without `parseSpecial` special tokens are plain text.
  void split(std::string_view text, bool isFirst, bool normalized,
             bool parseSpecial, std::vector<Segment> &segments) const;

private:
  std::vector<AddedToken> tokens;
  std::map<int32_t, size_t> byId;
  std::map<std::string, size_t, std::less<>> byContent;
  StringMatcher raw, normalized;
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_ADDEDTOKENS_H
