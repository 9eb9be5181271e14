//===- OutlineLayers.cpp ------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_OUTLINELAYERS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

namespace {
struct OutlineLayers : buddy::impl::OutlineLayersBase<OutlineLayers> {
  void runOnOperation() override {}
};
} // namespace
