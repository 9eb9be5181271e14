//===- CharsMap.cpp - SentencePiece's rewriting rules ---------------------===//

#include "CharsMap.h"
#include "Unicode.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

using namespace buddy;
using namespace buddy::text;

namespace {

/// Only clusters of fewer bytes are looked up as a whole; no single character
/// has as many, so longer rules never apply.
constexpr size_t ClusterLimit = 6;

/// Bounds what a hostile file can make of a text.  Unicode's longest
/// compatibility decomposition has 33 bytes.
constexpr size_t MaxReplacement = 1024;

[[noreturn]] void fail(const std::string &owner, const std::string &what) {
  throw Error(BUDDY_E_FORMAT,
              owner + ": malformed precompiled_charsmap: " + what);
}

/// Darts-clone's double array.  A node is the index where its children are
/// looked for: that of byte b is at node ^ b.
class DoubleArray {
public:
  explicit DoubleArray(std::string_view bytes) : units(bytes.size() / 4) {
    for (size_t i = 0; i < units.size(); ++i)
      for (unsigned byte = 0; byte < 4; ++byte)
        units[i] |= static_cast<uint32_t>(
                        static_cast<unsigned char>(bytes[4 * i + byte]))
                    << (8 * byte);
  }

  size_t size() const { return units.size(); }
  uint32_t root() const { return offset(units[0]); }

  /// The index of a child's unit, or 0, which is the root's.
  uint32_t find(uint32_t node, unsigned byte) const {
    uint32_t index = node ^ byte;
    bool found = index < units.size() && (units[index] & 0x800000FFu) == byte;
    return found ? index : 0;
  }
  uint32_t node(uint32_t index) const { return index ^ offset(units[index]); }
  bool hasValue(uint32_t index) const { return units[index] >> 8 & 1; }
  /// Of the string that ends at `node`; all ones outside the array.
  uint32_t value(uint32_t node) const {
    return node < units.size() ? units[node] & 0x7FFFFFFFu : ~uint32_t(0);
  }

private:
  static uint32_t offset(uint32_t unit) {
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
  }
  std::vector<uint32_t> units;
};

std::string decodeBase64(std::string_view text, const std::string &owner) {
  static constexpr std::string_view Alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint8_t digits[256];
  std::memset(digits, 0xFF, sizeof(digits));
  for (size_t i = 0; i < Alphabet.size(); ++i)
    digits[static_cast<unsigned char>(Alphabet[i])] = static_cast<uint8_t>(i);
  if (text.size() % 4 != 0)
    fail(owner, "no base64");
  for (int padding = 0; padding < 2 && !text.empty() && text.back() == '=';
       ++padding)
    text.remove_suffix(1);
  std::string result;
  result.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    uint8_t digit = digits[static_cast<unsigned char>(c)];
    if (digit == 0xFF)
      fail(owner, "no base64");
    bits = bits << 6 | digit;
    count += 6;
    if (count >= 8) {
      count -= 8;
      result += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return result;
}

} // namespace

CharsMap CharsMap::fromBase64(std::string_view text, const std::string &owner) {
  return CharsMap(decodeBase64(text, owner), owner);
}

/// Reads the rules by walking through the double array once, so that whatever
/// is wrong with it is found here.
CharsMap::CharsMap(std::string_view bytes, const std::string &owner) {
  if (bytes.size() < 4)
    fail(owner, "it is cut short");
  size_t size = 0;
  for (unsigned byte = 0; byte < 4; ++byte)
    size |= static_cast<size_t>(static_cast<unsigned char>(bytes[byte]))
            << (8 * byte);
  bytes.remove_prefix(4);
  if (size == 0 || size % 4 != 0 || size > bytes.size())
    fail(owner, "it is cut short");
  DoubleArray array(bytes.substr(0, size));
  replacements = bytes.substr(size);
  if (replacements.empty() || replacements.back() != '\0')
    fail(owner, "it is cut short");
  if (findInvalidUtf8(replacements) != std::string_view::npos)
    fail(owner, "a replacement is not valid UTF-8");

  std::vector<std::pair<std::string, int32_t>> found;
  std::vector<std::pair<uint32_t, std::string>> pending = {{array.root(), ""}};
  size_t visited = 0;
  while (!pending.empty()) {
    auto [node, key] = std::move(pending.back());
    pending.pop_back();
    for (unsigned byte = 1; byte < 256; ++byte) {
      uint32_t index = array.find(node, byte);
      if (index == 0)
        continue;
      if (++visited > array.size())
        fail(owner, "its trie has a cycle");
      std::string longer = key + static_cast<char>(byte);
      if (!array.hasValue(index)) {
        if (longer.size() + 1 < ClusterLimit)
          pending.emplace_back(array.node(index), std::move(longer));
        continue;
      }
      // The shortest rule applies: what lies below has no use.
      uint32_t value = array.value(array.node(index));
      if (value >= replacements.size() ||
          (static_cast<unsigned char>(replacements[value]) & 0xC0) == 0x80)
        fail(owner, "a replacement is out of range");
      size_t most = std::min(MaxReplacement + 1, replacements.size() - value);
      if (!std::memchr(replacements.data() + value, 0, most))
        fail(owner, "a replacement of more than " +
                        std::to_string(MaxReplacement) + " bytes");
      found.emplace_back(std::move(longer), static_cast<int32_t>(value));
    }
  }
  rules = Trie(std::vector<Trie::Entry>(found.begin(), found.end()));
}

bool CharsMap::replace(std::string_view text, std::string &out) const {
  Trie::Node node = Trie::Root;
  for (char c : text) {
    node = rules.child(node, c);
    if (node == Trie::None)
      return false;
    if (rules.value(node) != Trie::NoValue) {
      out += replacements.data() + rules.value(node);
      return true;
    }
  }
  return false;
}

/// A cluster of a character and marks is looked up as a whole, then its
/// characters one by one.
void CharsMap::apply(std::string &text) const {
  std::vector<std::pair<size_t, size_t>> clusters;
  cluster.findAll(text, clusters);
  std::string result;
  result.reserve(text.size());
  for (auto [begin, end] : clusters) {
    auto whole = std::string_view(text).substr(begin, end - begin);
    if (whole.size() < ClusterLimit && replace(whole, result))
      continue;
    for (size_t at = 0; at < whole.size();) {
      auto character = whole.substr(at, utf8Length(whole[at]));
      if (!replace(character, result))
        result += character;
      at += character.size();
    }
  }
  text = std::move(result);
}
