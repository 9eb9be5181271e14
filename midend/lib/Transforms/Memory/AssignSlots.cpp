//===- AssignSlots.cpp - which buffers share space ------------------------===//

#include "AssignSlots.h"

#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace llvm;
using namespace buddy;

SmallVector<unsigned> buddy::assignSlots(ArrayRef<PlacedBuffer> buffers) {
  SmallVector<unsigned> sorted(buffers.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  llvm::sort(sorted, [&](unsigned a, unsigned b) {
    return std::make_pair(-buffers[a].estimate, a) <
           std::make_pair(-buffers[b].estimate, b);
  });
  // Members of each slot; the first is the largest.
  SmallVector<SmallVector<unsigned>> slots;
  SmallVector<unsigned> result(buffers.size());
  for (unsigned i : sorted) {
    unsigned best = slots.size();
    std::pair<bool, int64_t> bestCost;
    for (auto [s, members] : llvm::enumerate(slots)) {
      if (llvm::any_of(members, [&](unsigned m) {
            return buffers[m].range.overlaps(buffers[i].range);
          }))
        continue;
      // A slot with a member of the same key at least as large surely does not
      // grow. Among the others the smallest wastes least.
      bool grows = llvm::none_of(members, [&](unsigned m) {
        return buffers[m].key == buffers[i].key &&
               buffers[m].factor >= buffers[i].factor;
      });
      std::pair<bool, int64_t> cost{grows, buffers[members.front()].estimate};
      if (best == slots.size() || cost < bestCost) {
        best = s;
        bestCost = cost;
      }
    }
    if (best == slots.size())
      slots.emplace_back();
    slots[best].push_back(i);
    result[i] = best;
  }
  return result;
}
