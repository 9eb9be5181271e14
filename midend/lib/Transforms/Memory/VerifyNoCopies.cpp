//===- VerifyNoCopies.cpp ------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_VERIFYNOCOPIES
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

namespace {
struct VerifyNoCopies : buddy::impl::VerifyNoCopiesBase<VerifyNoCopies> {
  void runOnOperation() override {}
};
} // namespace
