//===- Trie.h - Strings by their first bytes --------------------*- C++ -*-===//
//
// Finds which of a set of strings begin a text.  Built once, then read only:
// nodes lie in breadth-first order, so that a node's children are neighbours.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_TRIE_H
#define BUDDY_LIB_TEXT_TRIE_H

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace buddy::text {

class Trie {
public:
  using Node = uint32_t;
  static constexpr Node Root = 0;
  static constexpr Node None = ~Node(0);
  /// The value of a node where no string ends.
  static constexpr int32_t NoValue = -1;

  /// Values are not negative.  Of equal strings the greatest value counts; the
  /// empty string does not.  The characters may go after the constructor.
  using Entry = std::pair<std::string_view, int32_t>;

  Trie() : Trie(std::vector<Entry>()) {}
  explicit Trie(std::vector<Entry> entries);

  bool empty() const { return values.size() == 1; }

  /// The child of `node`, or None.
  Node child(Node node, char byte) const {
    const unsigned char *begin = labels.data() + children[node];
    size_t count = children[node + 1] - children[node];
    if (count == 0)
      return None;
    const void *found =
        std::memchr(begin, static_cast<unsigned char>(byte), count);
    if (!found)
      return None;
    return static_cast<Node>(static_cast<const unsigned char *>(found) -
                             labels.data());
  }

  /// The node that `text` leads to, or None.
  Node descend(std::string_view text) const {
    Node node = Root;
    for (size_t at = 0; node != None && at < text.size(); ++at)
      node = child(node, text[at]);
    return node;
  }

  /// Of the string that ends at `node`, or NoValue.
  int32_t value(Node node) const { return values[node]; }

  /// Calls `function(length, value)` for each string that `text`, read from
  /// `node` on, begins with, from the shortest to the longest.
  template <typename Function>
  void forEachPrefix(std::string_view text, Function function,
                     Node node = Root) const {
    for (size_t at = 0; at < text.size();) {
      node = child(node, text[at++]);
      if (node == None)
        return;
      if (values[node] != NoValue)
        function(at, values[node]);
    }
  }

private:
  std::vector<Node> children; ///< Where each node's begin; one more at the end.
  std::vector<int32_t> values;
  std::vector<unsigned char> labels; ///< Of the edge to each node.
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_TRIE_H
