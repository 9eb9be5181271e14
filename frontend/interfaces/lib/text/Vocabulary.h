//===- Vocabulary.h - Token strings and ids ---------------------*- C++ -*-===//
//
// A map in both directions, built to be filled fast: the strings are not
// copied, and the hash table is one flat array.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_VOCABULARY_H
#define BUDDY_LIB_TEXT_VOCABULARY_H

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace buddy::text {

/// A hash of short strings: eight bytes at a time, folded 128-bit products.
inline uint64_t hashBytes(std::string_view text) {
  auto mix = [](uint64_t a, uint64_t b) {
    auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^
           static_cast<uint64_t>(product >> 64);
  };
  uint64_t hash = text.size() * 0x9E3779B97F4A7C15u;
  const char *data = text.data();
  size_t left = text.size();
  for (; left >= 8; left -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = mix(hash ^ word, 0xD6E8FEB86659FD93u);
  }
  uint64_t tail = 0;
  if (left)
    std::memcpy(&tail, data, left);
  return mix(hash ^ tail, 0xA0761D6478BD642Fu);
}

class Vocabulary {
public:
  static constexpr int32_t None = -1;
  /// Ids are below this: it bounds the tables that a hostile file can ask for.
  static constexpr int32_t MaxId = 1 << 24;

  /// Makes room for `count` tokens, so that adding them does not rehash.
  void reserve(size_t count);

  /// Adds a token.  The characters stay the caller's.  The first id of a string
  /// that comes twice is the one found.  False if the id is taken.
  bool add(std::string_view token, int32_t id);

  /// Id of a token, or None.
  int32_t find(std::string_view token) const {
    if (slots.empty())
      return None;
    uint64_t hash = hashBytes(token);
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot &slot = slots[at];
      if (slot.id == None)
        return None;
      if (slot.tag == tagOf(hash) && tokens[slot.id] == token)
        return slot.id;
    }
  }

  bool has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens.size() &&
           tokens[id].data() != nullptr;
  }

  /// The string of an id that `has` says is there.
  std::string_view token(int32_t id) const { return tokens[id]; }

  /// One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(tokens.size()); }

  /// Each string with the id that `find` gives, in no order.
  std::vector<std::pair<std::string_view, int32_t>> entries() const;

  /// The ids of <0x00> … <0xFF>, or None.
  std::vector<int32_t> byteIds() const;

private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = None;
  };
  static uint32_t tagOf(uint64_t hash) {
    return static_cast<uint32_t>(hash >> 32);
  }
  size_t mask() const { return slots.size() - 1; }
  void insert(std::string_view token, int32_t id);
  void rehash(size_t capacity);

  std::vector<std::string_view> tokens;
  std::vector<Slot> slots; ///< Open addressing; a power of two, half full.
  size_t used = 0;
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_VOCABULARY_H
