//===- WordPiece.cpp - WordPiece ------------------------------------------===//

#include "WordPiece.h"
#include "Unicode.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <utility>

using namespace buddy;
using namespace buddy::text;

WordPiece::WordPiece(const Vocabulary &vocabulary,
                     WordPieceOptions givenOptions)
    : options(std::move(givenOptions)),
      unknownId(vocabulary.find(options.unknownToken)),
      tokens(vocabulary.entries()),
      subwords(tokens.descend(options.subwordPrefix)) {
  if (unknownId == Vocabulary::None)
    throw Error(BUDDY_E_FORMAT, "the unknown token '" + options.unknownToken +
                                    "' is not in the vocabulary");
}

void WordPiece::encode(std::string_view word, std::vector<int32_t> &ids) const {
  uint64_t characters = 0;
  for (size_t at = 0; at < word.size(); at += utf8Length(word[at]))
    if (++characters > options.maxCharacters) {
      ids.push_back(unknownId);
      return;
    }
  size_t first = ids.size();
  for (size_t at = 0; at < word.size();) {
    size_t longest = 0;
    int32_t id = unknownId;
    Trie::Node start = at == 0 ? Trie::Root : subwords;
    if (start != Trie::None)
      tokens.forEachPrefix(
          word.substr(at),
          [&](size_t length, int32_t value) {
            longest = length;
            id = value;
          },
          start);
    if (longest == 0) {
      // One part that is no token makes the whole word unknown.
      ids.resize(first);
      ids.push_back(unknownId);
      return;
    }
    ids.push_back(id);
    at += longest;
  }
}
