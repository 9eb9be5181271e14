//===- Unigram.h - Unigram language models ----------------------*- C++ -*-===//
//
// SentencePiece's unigram model, as tokenizer.json stores it: of all ways to
// cut a text into tokens the one with the greatest sum of scores ("Subword
// Regularization", Kudo 2018, section 3.2), found by Viterbi's algorithm.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_UNIGRAM_H
#define BUDDY_LIB_TEXT_UNIGRAM_H

#include "Trie.h"
#include "Vocabulary.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace buddy::text {

class Unigram {
public:
  /// `vocabulary` must outlive this and be complete; `scores` has one for each
  /// of its ids, a logarithm of a probability.  With `byteFallback` what is
  /// unknown becomes <0xXX> tokens.  Throws buddy::Error if there is no id
  /// `unknown`.
  Unigram(const Vocabulary &vocabulary, std::vector<double> scores,
          std::optional<int64_t> unknown, bool byteFallback);

  /// Scratch memory; one for each thread at a time.
  class Lattice;

  /// Appends the ids of a piece that the pre-tokenizer made.  Throws
  /// buddy::Error if a character is not in a vocabulary without unknown token.
  void encode(std::string_view text, std::vector<int32_t> &ids,
              Lattice &lattice) const;

private:
  void search(std::string_view text, Lattice &lattice) const;
  void appendUnknown(std::string_view text, std::vector<int32_t> &ids) const;

  const Vocabulary &vocabulary;
  std::vector<double> scores;
  std::optional<int32_t> unknown;
  double unknownScore;
  bool byteFallback;
  std::vector<int32_t> byteIds; ///< Of <0x00> … <0xFF>, or None.
  Trie tokens;
};

class Unigram::Lattice {
  friend class Unigram;
  /// The best way to cut the text up to some byte, by its last token.
  struct Node {
    double score = 0;
    int32_t id = 0;
    uint32_t length = 0; ///< Of the last token in bytes; 0 if none is known.
  };
  std::vector<Node> nodes;
  std::vector<size_t> cuts;
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_UNIGRAM_H
