//===- SetTarget.cpp - record the machine compiled for --------------------===//

#include "buddy/Target/TargetInfo.h"
#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_SETTARGET
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

namespace {
struct SetTarget : buddy::impl::SetTargetBase<SetTarget> {
  using SetTargetBase::SetTargetBase;

  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    if (target.empty() && module->hasAttr(buddy::kTargetAttr))
      return;
    auto info = buddy::getTargetInfo(target);
    if (!info) {
      module.emitError(llvm::toString(info.takeError()));
      return signalPassFailure();
    }
    module->setAttr(buddy::kTargetAttr,
                    buddy::TargetAttr::get(&getContext(), info->name,
                                           info->triple, info->cpu,
                                           info->features, info->abi));
  }
};
} // namespace
