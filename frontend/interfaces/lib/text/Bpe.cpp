//===- Bpe.cpp - Byte pair encoding ---------------------------------------===//

#include "Bpe.h"
#include "Unicode.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace buddy;
using namespace buddy::text;

Bpe::Bpe(const Vocabulary &vocabulary, BpeOptions givenOptions)
    : vocabulary(vocabulary), options(std::move(givenOptions)) {
  if (!options.unknownToken.empty()) {
    unknownId = vocabulary.find(options.unknownToken);
    if (unknownId == Vocabulary::None)
      throw Error(BUDDY_E_FORMAT, "the unknown token '" + options.unknownToken +
                                      "' is not in the vocabulary");
  }
  byteIds = vocabulary.byteIds();
  // Byte-level vocabularies use no other characters.
  shortIds.resize(0x200);
  for (char32_t c = 0; c < 0x200; ++c) {
    std::string character;
    appendUtf8(character, c);
    shortIds[c] = vocabulary.find(character);
  }
}

void Bpe::reserveMerges(size_t count) {
  if (2 * count > pairs.size())
    rehash(2 * count);
}

void Bpe::addMerge(std::string_view pair) {
  size_t space = pair.find(' ');
  if (space == std::string_view::npos ||
      pair.find(' ', space + 1) != std::string_view::npos)
    throw Error(BUDDY_E_FORMAT, "merge '" + std::string(pair) +
                                    "' is not two tokens with a space between");
  addMerge(pair.substr(0, space), pair.substr(space + 1));
}

void Bpe::addMerge(std::string_view left, std::string_view right) {
  auto idOf = [&](std::string_view token) {
    int32_t id = vocabulary.find(token);
    if (id == Vocabulary::None)
      throw Error(BUDDY_E_FORMAT, "merge '" + std::string(left) + " " +
                                      std::string(right) + "': token '" +
                                      std::string(token) +
                                      "' is not in the vocabulary");
    return id;
  };
  int32_t leftId = idOf(left), rightId = idOf(right);
  scratch.assign(left);
  // The right part is no longer the middle of a word by itself.
  scratch.append(
      right.substr(std::min(options.subwordPrefix.size(), right.size())));
  int32_t merged = idOf(scratch);
  if (2 * (pairCount + 1) > pairs.size())
    rehash(4 * (pairCount + 1));
  uint64_t key = keyOf(leftId, rightId);
  Pair &slot = slotOf(key);
  pairCount += slot.key != key;
  slot = {key, nextRank++, merged};
}

Bpe::Pair &Bpe::slotOf(uint64_t key) {
  size_t mask = pairs.size() - 1;
  size_t at = (key * 0x9E3779B97F4A7C15u) >> 20 & mask;
  while (pairs[at].key != ~uint64_t(0) && pairs[at].key != key)
    at = (at + 1) & mask;
  return pairs[at];
}

const Bpe::Pair *Bpe::findPair(int32_t left, int32_t right) const {
  if (pairs.empty())
    return nullptr;
  const Pair &slot = const_cast<Bpe *>(this)->slotOf(keyOf(left, right));
  return slot.key == ~uint64_t(0) ? nullptr : &slot;
}

void Bpe::rehash(size_t capacity) {
  size_t size = 16;
  while (size < capacity)
    size *= 2;
  std::vector<Pair> old(size);
  old.swap(pairs);
  for (const Pair &pair : old)
    if (pair.key != ~uint64_t(0))
      slotOf(pair.key) = pair;
}

bool Bpe::appendBytes(std::string_view character, Cache &cache) const {
  for (char c : character)
    if (byteIds[static_cast<unsigned char>(c)] == Vocabulary::None)
      return false;
  for (char c : character)
    cache.symbols.push_back(
        {byteIds[static_cast<unsigned char>(c)], 0, 0, false});
  return true;
}

/// Cuts a word into the symbols of its characters.
void Bpe::split(std::string_view word, Cache &cache) const {
  bool plain = options.subwordPrefix.empty() && options.wordSuffix.empty();
  // Unknown characters waiting to be added as one token or as the last of
  // several.  As in `tokenizers`, bytes that a later character falls back to
  // are added before it.
  bool unknownWaits = false;
  std::string decorated;
  for (size_t at = 0; at < word.size();) {
    size_t begin = at;
    char32_t codePoint = nextCodePoint(word, at);
    std::string_view character = word.substr(begin, at - begin);
    int32_t id;
    if (plain) {
      id = codePoint < shortIds.size() ? shortIds[codePoint]
                                       : vocabulary.find(character);
    } else {
      decorated = begin > 0 ? options.subwordPrefix : std::string();
      decorated += character;
      if (at == word.size())
        decorated += options.wordSuffix;
      character = decorated;
      id = vocabulary.find(character);
    }
    if (id != Vocabulary::None) {
      if (std::exchange(unknownWaits, false))
        cache.symbols.push_back({unknownId, 0, 0, false});
      cache.symbols.push_back({id, 0, 0, false});
      continue;
    }
    if (options.byteFallback && appendBytes(character, cache))
      continue;
    if (unknownId == Vocabulary::None)
      continue;
    if (unknownWaits && !options.fuseUnknown)
      cache.symbols.push_back({unknownId, 0, 0, false});
    unknownWaits = true;
  }
  if (unknownWaits)
    cache.symbols.push_back({unknownId, 0, 0, false});
}

/// Merges the symbols, a linked list, in the order that a heap of candidates
/// gives: O(n log n).
void Bpe::merge(Cache &cache) const {
  auto &symbols = cache.symbols;
  auto &heap = cache.heap;
  auto count = static_cast<int32_t>(symbols.size());
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
    if (i + 1 < count)
      if (const Pair *pair = findPair(symbols[i].id, symbols[i + 1].id))
        heap.push_back({pair->rank, i, pair->merged});
  }
  std::make_heap(heap.begin(), heap.end());
  auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0)
      return;
    if (const Pair *pair = findPair(symbols[left].id, symbols[right].id)) {
      heap.push_back({pair->rank, left, pair->merged});
      std::push_heap(heap.begin(), heap.end());
    }
  };
  while (!heap.empty()) {
    Cache::Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    Cache::Symbol &left = symbols[top.position];
    if (left.removed || left.next < 0)
      continue;
    Cache::Symbol &right = symbols[left.next];
    // The pair may have changed since it was found.
    const Pair *pair = findPair(left.id, right.id);
    if (!pair || pair->merged != top.merged)
      continue;
    left.id = top.merged;
    left.next = right.next;
    right.removed = true;
    if (left.next >= 0)
      symbols[left.next].previous = top.position;
    consider(left.previous, top.position);
    consider(top.position, left.next);
  }
}

void Bpe::encode(std::string_view word, std::vector<int32_t> &ids,
                 Cache &cache) const {
  if (word.empty())
    return;
  if (word.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw Error(BUDDY_E_ARGUMENT, "a text of more than 2 GB");
  if (options.ignoreMerges) {
    int32_t id = vocabulary.find(word);
    if (id != Vocabulary::None) {
      ids.push_back(id);
      return;
    }
  }
  bool keep = word.size() <= Cache::MaxWordBytes;
  Cache::Word *entry = nullptr;
  if (keep) {
    if (cache.words.empty())
      cache.words.resize(Cache::WordCount);
    entry = &cache.words[hashBytes(word) % Cache::WordCount];
    if (entry->text == word) {
      ids.insert(ids.end(), entry->ids.begin(), entry->ids.end());
      return;
    }
  }
  cache.symbols.clear();
  split(word, cache);
  merge(cache);
  size_t first = ids.size();
  for (const Cache::Symbol &symbol : cache.symbols)
    if (!symbol.removed)
      ids.push_back(symbol.id);
  if (entry) {
    entry->text.assign(word);
    entry->ids.assign(ids.begin() + first, ids.end());
  }
}
