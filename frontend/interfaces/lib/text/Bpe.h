//===- Bpe.h - Byte pair encoding -------------------------------*- C++ -*-===//
//
// The BPE model of Hugging Face's `tokenizers`: a word is cut into characters,
// then the adjacent pair of lowest rank is merged until none is left.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_BPE_H
#define BUDDY_LIB_TEXT_BPE_H

#include "Vocabulary.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

struct BpeOptions {
  std::string unknownToken;  ///< Empty: characters not in the vocabulary go.
  std::string subwordPrefix; ///< Of every character but a word's first.
  std::string wordSuffix;    ///< Of a word's last character.
  bool fuseUnknown = false;  ///< A run of unknowns is one token.
  bool byteFallback = false; ///< Unknown characters become <0xXX> tokens.
  bool ignoreMerges = false; ///< A whole word in the vocabulary is a token.
};

class Bpe {
public:
  /// `vocabulary` must outlive this and be complete.  Throws buddy::Error if
  /// the unknown token is not in it.
  Bpe(const Vocabulary &vocabulary, BpeOptions options);

  void reserveMerges(size_t count);

  /// Adds the merge of next lower priority.  Throws buddy::Error if one of its
  /// tokens or their concatenation is not in the vocabulary.
  void addMerge(std::string_view left, std::string_view right);
  /// The same, written "left right".
  void addMerge(std::string_view pair);

  /// Scratch memory and the latest words' ids; one for each thread at a time.
  class Cache;

  /// Appends the ids of a word, a piece that the pre-tokenizer made.
  void encode(std::string_view word, std::vector<int32_t> &ids,
              Cache &cache) const;

private:
  struct Pair {
    uint64_t key = ~uint64_t(0); ///< Left and right id; all ones if empty.
    int32_t rank = 0;
    int32_t merged = 0;
  };
  static uint64_t keyOf(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  const Pair *findPair(int32_t left, int32_t right) const;
  Pair &slotOf(uint64_t key);
  void rehash(size_t capacity);
  void split(std::string_view word, Cache &cache) const;
  bool appendBytes(std::string_view character, Cache &cache) const;
  void merge(Cache &cache) const;

  const Vocabulary &vocabulary;
  BpeOptions options;
  int32_t unknownId = Vocabulary::None;
  int32_t nextRank = 0;
  std::vector<int32_t> byteIds;  ///< Of <0x00> … <0xFF>, or None.
  std::vector<int32_t> shortIds; ///< Of characters below U+0200, or None.
  std::vector<Pair> pairs;       ///< Open addressing, a power of two.
  size_t pairCount = 0;
  std::string scratch;
};

class Bpe::Cache {
  friend class Bpe;
  struct Symbol {
    int32_t id;
    int32_t previous, next; ///< Indices; -1 at the ends.
    bool removed;
  };
  struct Candidate {
    int32_t rank, position, merged;
    bool operator<(const Candidate &other) const {
      // For a max-heap: lowest rank first, leftmost among equals.
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  struct Word {
    std::string text;
    std::vector<int32_t> ids;
  };
  /// Words longer than this are not kept: they seldom come again.
  static constexpr size_t MaxWordBytes = 256;
  static constexpr size_t WordCount = 4096;

  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<Word> words; ///< Direct-mapped by hash.
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_BPE_H
