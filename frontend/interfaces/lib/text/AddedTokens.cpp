//===- AddedTokens.cpp - Tokens matched before the model ------------------===//

#include "AddedTokens.h"
#include "Unicode.h"

#include <algorithm>
#include <unicode/uchar.h>
#include <utility>

using namespace buddy::text;

namespace {

bool isSpace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

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

void StringMatcher::add(std::string_view text, int32_t value) {
  if (text.empty())
    return;
  canBegin[static_cast<unsigned char>(text.front())] = true;
  uint32_t at = 0;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    auto it = nodes[at].next.find(byte);
    if (it == nodes[at].next.end()) {
      auto created = static_cast<uint32_t>(nodes.size());
      nodes[at].next.emplace(byte, created);
      nodes.emplace_back();
      at = created;
    } else {
      at = it->second;
    }
  }
  nodes[at].value = value;
}

std::optional<StringMatcher::Match> StringMatcher::find(std::string_view text,
                                                        size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!canBegin[static_cast<unsigned char>(text[begin])])
      continue;
    std::optional<Match> longest;
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      auto it = nodes[node].next.find(static_cast<unsigned char>(text[at]));
      if (it == nodes[node].next.end())
        break;
      node = it->second;
      if (nodes[node].value >= 0)
        longest = Match{begin, at + 1, nodes[node].value};
    }
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
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].normalized) {
      raw.add(tokens[i].content, static_cast<int32_t>(i));
      continue;
    }
    std::string pattern = tokens[i].content;
    normalizer.apply(pattern);
    normalized.add(pattern, static_cast<int32_t>(i));
  }
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
