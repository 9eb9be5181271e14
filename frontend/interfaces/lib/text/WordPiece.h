//===- WordPiece.h - WordPiece ----------------------------------*- C++ -*-===//
//
// BERT's model: a word is cut into the longest tokens that it begins with, one
// after the other ("Fast WordPiece Tokenization", Song et al. 2021, section 3).
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_WORDPIECE_H
#define BUDDY_LIB_TEXT_WORDPIECE_H

#include "Trie.h"
#include "Vocabulary.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

struct WordPieceOptions {
  std::string unknownToken = "[UNK]"; ///< Of a word that cannot be cut so.
  std::string subwordPrefix = "##";   ///< Of all tokens but a word's first.
  uint64_t maxCharacters = 100;       ///< Longer words are unknown.
};

class WordPiece {
public:
  /// `vocabulary` must be complete.  Throws buddy::Error if the unknown token
  /// is not in it.
  WordPiece(const Vocabulary &vocabulary, WordPieceOptions options);

  /// Appends the ids of a word, a piece that the pre-tokenizer made.
  void encode(std::string_view word, std::vector<int32_t> &ids) const;

private:
  WordPieceOptions options;
  int32_t unknownId;
  Trie tokens;
  Trie::Node subwords; ///< Where the tokens with the prefix begin, or None.
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_WORDPIECE_H
