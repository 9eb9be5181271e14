//===- Vocabulary.cpp - Token strings and ids -----------------------------===//

#include "Vocabulary.h"

#include <cstdio>

using namespace buddy::text;

void Vocabulary::reserve(size_t count) {
  tokens.reserve(count);
  if (2 * count > slots.size())
    rehash(2 * count);
}

bool Vocabulary::add(std::string_view token, int32_t id) {
  if (static_cast<size_t>(id) >= tokens.size())
    tokens.resize(static_cast<size_t>(id) + 1);
  if (tokens[id].data())
    return false;
  // An empty view still marks the id as taken.
  tokens[id] = token.data() ? token : std::string_view("");
  if (2 * (used + 1) > slots.size())
    rehash(4 * (used + 1));
  insert(tokens[id], id);
  return true;
}

void Vocabulary::insert(std::string_view token, int32_t id) {
  uint64_t hash = hashBytes(token);
  size_t at = hash & mask();
  for (; slots[at].id != None; at = (at + 1) & mask())
    if (slots[at].tag == tagOf(hash) && tokens[slots[at].id] == token)
      return;
  slots[at] = {tagOf(hash), id};
  ++used;
}

void Vocabulary::rehash(size_t capacity) {
  size_t size = 16;
  while (size < capacity)
    size *= 2;
  std::vector<Slot> old(size);
  old.swap(slots);
  used = 0;
  for (const Slot &slot : old)
    if (slot.id != None)
      insert(tokens[slot.id], slot.id);
}

std::vector<std::pair<std::string_view, int32_t>> Vocabulary::entries() const {
  std::vector<std::pair<std::string_view, int32_t>> result;
  result.reserve(used);
  for (const Slot &slot : slots)
    if (slot.id != None)
      result.emplace_back(tokens[slot.id], slot.id);
  return result;
}

std::vector<int32_t> Vocabulary::byteIds() const {
  std::vector<int32_t> result(256);
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    result[byte] = find(name);
  }
  return result;
}
