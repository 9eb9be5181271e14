//===- AddedTokens.cpp - Tokens matched before the model ------------------===//

#include "AddedTokens.h"
#include "Categories.h"
#include "JsonAccess.h"
#include "Unicode.h"
#include "Vocabulary.h"

#include <algorithm>
#include <unicode/uchar.h>
#include <utility>

using namespace buddy;
using namespace buddy::text;

namespace {

/// \w of Rust's regular expressions (Unicode TS #18, annex C).
bool isWord(char32_t c) {
  auto point = static_cast<UChar32>(c);
  return u_hasBinaryProperty(point, UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL) ||
         (U_MASK(u_charType(point)) &
          (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK));
}

/// The character before `end`, which moves to its begin.
char32_t previousCodePoint(std::string_view text, size_t &end) {
  do
    --end;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  size_t at = end;
  return nextCodePoint(text, at);
}

size_t spacesBegin(std::string_view text, size_t end) {
  while (end > 0) {
    size_t previous = end;
    if (!isSpace(previousCodePoint(text, previous)))
      break;
    end = previous;
  }
  return end;
}

size_t spacesEnd(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t next = begin;
    if (!isSpace(nextCodePoint(text, next)))
      break;
    begin = next;
  }
  return begin;
}

bool isInsideWord(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t at = begin;
    if (isWord(previousCodePoint(text, at)))
      return true;
  }
  return end < text.size() && isWord(nextCodePoint(text, end));
}

} // namespace

AddedToken AddedToken::fromJson(const nlohmann::json &spec, int64_t id) {
  const std::string owner = "added token";
  AddedToken token;
  token.content = getString(spec, "content", owner);
  if (id < 0 || id >= Vocabulary::MaxId)
    throw Error(BUDDY_E_FORMAT, owner + " '" + token.content + "' has the id " +
                                    std::to_string(id) +
                                    ", which is out of range");
  token.id = static_cast<int32_t>(id);
  token.special = getBool(spec, "special", false, owner);
  token.singleWord = getBool(spec, "single_word", false, owner);
  token.lstrip = getBool(spec, "lstrip", false, owner);
  token.rstrip = getBool(spec, "rstrip", false, owner);
  token.normalized = getBool(spec, "normalized", !token.special, owner);
  return token;
}

StringMatcher::StringMatcher(std::vector<Trie::Entry> strings)
    : trie(std::move(strings)) {
  for (unsigned byte = 0; byte < 256; ++byte)
    canBegin[byte] =
        trie.child(Trie::Root, static_cast<char>(byte)) != Trie::None;
}

std::optional<StringMatcher::Match> StringMatcher::find(std::string_view text,
                                                        size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!canBegin[static_cast<unsigned char>(text[begin])])
      continue;
    std::optional<Match> longest;
    trie.forEachPrefix(text.substr(begin), [&](size_t length, int32_t value) {
      longest = Match{begin, begin + length, value};
    });
    if (longest)
      return longest;
  }
  return std::nullopt;
}

void AddedTokens::add(AddedToken token) {
  if (token.content.empty() || byContent.count(token.content))
    return;
  byId.emplace(token.id, tokens.size());
  byContent.emplace(token.content, tokens.size());
  tokens.push_back(std::move(token));
}

void AddedTokens::finish(const Normalizer &normalizer) {
  std::vector<std::string> patterns(tokens.size());
  std::vector<Trie::Entry> rawEntries, normalizedEntries;
  // Of tokens that are normalized to the same, the last is found.
  for (size_t i = 0; i < tokens.size(); ++i) {
    patterns[i] = tokens[i].content;
    if (tokens[i].normalized)
      normalizer.apply(patterns[i]);
    auto &entries = tokens[i].normalized ? normalizedEntries : rawEntries;
    entries.emplace_back(patterns[i], static_cast<int32_t>(i));
  }
  raw = StringMatcher(std::move(rawEntries));
  normalized = StringMatcher(std::move(normalizedEntries));
}

const AddedToken *AddedTokens::find(int32_t id) const {
  auto it = byId.find(id);
  return it == byId.end() ? nullptr : &tokens[it->second];
}

const AddedToken *AddedTokens::find(std::string_view content) const {
  auto it = byContent.find(content);
  return it == byContent.end() ? nullptr : &tokens[it->second];
}

void AddedTokens::split(std::string_view text, bool isFirst, bool useNormalized,
                        bool parseSpecial,
                        std::vector<Segment> &segments) const {
  const StringMatcher &matcher = useNormalized ? normalized : raw;
  size_t done = 0, from = 0;
  auto addText = [&](size_t begin, size_t end) {
    if (begin < end)
      segments.push_back(
          {text.substr(begin, end - begin), nullptr, isFirst && begin == 0});
  };
  if (!matcher.empty()) {
    while (auto match = matcher.find(text, from)) {
      from = match->end;
      const AddedToken &token = tokens[match->value];
      size_t begin = match->begin, end = match->end;
      if (token.special && !parseSpecial)
        continue;
      if (token.singleWord && isInsideWord(text, begin, end))
        continue;
      // The token before may have taken the same white space.
      if (token.lstrip)
        begin = std::max(spacesBegin(text, begin), done);
      if (token.rstrip)
        end = spacesEnd(text, end);
      addText(done, begin);
      segments.push_back({text.substr(begin, end - begin), &token, false});
      done = end;
    }
  }
  addText(done, text.size());
}
