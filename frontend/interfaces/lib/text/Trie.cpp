//===- Trie.cpp - Strings by their first bytes ----------------------------===//

#include "Trie.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <algorithm>

using namespace buddy;
using namespace buddy::text;

Trie::Trie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end());
  // The entries below each node, which are consecutive once sorted.
  std::vector<std::pair<size_t, size_t>> ranges = {{0, entries.size()}};
  labels.push_back(0);
  size_t level = 1; // One more than the last node of the same depth.
  for (size_t node = 0, depth = 0; node < ranges.size(); ++node) {
    if (node == level) {
      level = ranges.size();
      ++depth;
    }
    children.push_back(static_cast<Node>(ranges.size()));
    auto [begin, end] = ranges[node];
    values.push_back(NoValue);
    for (; begin < end && entries[begin].first.size() == depth; ++begin)
      if (depth > 0)
        values.back() = entries[begin].second;
    while (begin < end) {
      char byte = entries[begin].first[depth];
      size_t next = begin;
      while (next < end && entries[next].first[depth] == byte)
        ++next;
      ranges.emplace_back(begin, next);
      labels.push_back(static_cast<unsigned char>(byte));
      begin = next;
    }
    if (ranges.size() >= None)
      throw Error(BUDDY_E_FORMAT, "the vocabulary is too large");
  }
  children.push_back(static_cast<Node>(ranges.size()));
}
