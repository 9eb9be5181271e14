//===- CharsMap.h - SentencePiece's rewriting rules -------------*- C++ -*-===//
//
// The normalizer Precompiled of tokenizer.json: SentencePiece's table of
// strings and what replaces them (precompiled_charsmap of its normalizer_spec),
// applied as Hugging Face's `tokenizers` does.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_CHARSMAP_H
#define BUDDY_LIB_TEXT_CHARSMAP_H

#include "Regex.h"
#include "Trie.h"

#include <string>
#include <string_view>

namespace buddy::text {

class CharsMap {
public:
  /// From the table's bytes: a little-endian u32 n, a double-array trie (that
  /// of Darts-clone) of n bytes, and the replacements, each ended by NUL, which
  /// the trie's values are offsets into.  Throws buddy::Error that names
  /// `owner` if they are malformed.
  CharsMap(std::string_view bytes, const std::string &owner);

  /// From the table in base64, as tokenizer.json has it.
  static CharsMap fromBase64(std::string_view text, const std::string &owner);

  /// Rewrites valid UTF-8 into valid UTF-8.
  void apply(std::string &text) const;

private:
  /// Appends what replaces `text` by the shortest rule that it begins with;
  /// false if there is none.
  bool replace(std::string_view text, std::string &out) const;

  Regex cluster{"\\X"};
  Trie rules; ///< Values are offsets in `replacements`.
  std::string replacements;
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_CHARSMAP_H
