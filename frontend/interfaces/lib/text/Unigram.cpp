//===- Unigram.cpp - Unigram language models ------------------------------===//

#include "Unigram.h"
#include "Unicode.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <algorithm>
#include <string>
#include <utility>

using namespace buddy;
using namespace buddy::text;

/// How much worse than the worst token an unknown character is, as in
/// SentencePiece.
static constexpr double UnknownPenalty = 10;

Unigram::Unigram(const Vocabulary &vocabulary, std::vector<double> givenScores,
                 std::optional<int64_t> unknownId, bool byteFallback)
    : vocabulary(vocabulary), scores(std::move(givenScores)),
      byteFallback(byteFallback), byteIds(vocabulary.byteIds()),
      tokens(vocabulary.entries()) {
  if (scores.empty())
    throw Error(BUDDY_E_FORMAT, "the vocabulary is empty");
  unknownScore =
      *std::min_element(scores.begin(), scores.end()) - UnknownPenalty;
  if (!unknownId)
    return;
  if (*unknownId < 0 || *unknownId >= static_cast<int64_t>(scores.size()))
    throw Error(BUDDY_E_FORMAT, "the unknown token's id " +
                                    std::to_string(*unknownId) +
                                    " is outside the vocabulary");
  unknown = static_cast<int32_t>(*unknownId);
}

/// Fills in the best token before each character's end.  Of equal sums the one
/// found first stays, whose last token is the longest.
void Unigram::search(std::string_view text, Lattice &lattice) const {
  lattice.nodes.assign(text.size() + 1, {});
  for (size_t at = 0; at < text.size();) {
    double before = lattice.nodes[at].score;
    size_t characterLength = utf8Length(text[at]);
    auto offer = [&](size_t length, double score, auto id) {
      Lattice::Node &node = lattice.nodes[at + length];
      double sum = before + score;
      if (node.length == 0 || sum > node.score)
        node = {sum, id(), static_cast<uint32_t>(length)};
    };
    bool hasCharacter = false;
    tokens.forEachPrefix(text.substr(at), [&](size_t length, int32_t id) {
      offer(length, scores[id], [id] { return id; });
      hasCharacter |= length == characterLength;
    });
    if (!hasCharacter)
      offer(characterLength, unknownScore, [&] {
        if (!unknown)
          throw Error(BUDDY_E_ARGUMENT,
                      "'" + std::string(text.substr(at, characterLength)) +
                          "' is not in the vocabulary, which has no unknown "
                          "token");
        return *unknown;
      });
    at += characterLength;
  }
}

void Unigram::appendUnknown(std::string_view text,
                            std::vector<int32_t> &ids) const {
  // Unknown characters that only together are a token.
  int32_t whole = vocabulary.find(text);
  if (whole != Vocabulary::None) {
    ids.push_back(whole);
    return;
  }
  auto idOf = [&](char c) { return byteIds[static_cast<unsigned char>(c)]; };
  if (byteFallback && std::all_of(text.begin(), text.end(), [&](char c) {
        return idOf(c) != Vocabulary::None;
      })) {
    for (char c : text)
      ids.push_back(idOf(c));
    return;
  }
  ids.push_back(*unknown);
}

void Unigram::encode(std::string_view text, std::vector<int32_t> &ids,
                     Lattice &lattice) const {
  search(text, lattice);
  lattice.cuts.clear();
  for (size_t end = text.size(); end > 0; end -= lattice.nodes[end].length)
    lattice.cuts.push_back(end);
  size_t begin = 0, unknownBegin = 0;
  bool inUnknown = false;
  for (auto cut = lattice.cuts.rbegin(); cut != lattice.cuts.rend(); ++cut) {
    int32_t id = lattice.nodes[*cut].id;
    bool isUnknown = unknown && id == *unknown;
    if (isUnknown && !inUnknown)
      unknownBegin = begin;
    // A run of unknown tokens is one.
    if (!isUnknown && inUnknown)
      appendUnknown(text.substr(unknownBegin, begin - unknownBegin), ids);
    if (!isUnknown)
      ids.push_back(id);
    inUnknown = isUnknown;
    begin = *cut;
  }
  if (inUnknown)
    appendUnknown(text.substr(unknownBegin), ids);
}
