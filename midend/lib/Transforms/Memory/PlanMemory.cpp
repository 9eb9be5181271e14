//===- PlanMemory.cpp ------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_PLANMEMORY
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

namespace {
struct PlanMemory : buddy::impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {}
};
} // namespace
