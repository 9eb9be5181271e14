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
      emitError(module.getLoc(), llvm::toString(info.takeError()));
      return signalPassFailure();
    }
    auto wanted =
        buddy::TargetAttr::get(&getContext(), info->name, info->triple,
                               info->cpu, info->features, info->abi);
    auto recorded =
        module->getAttrOfType<buddy::TargetAttr>(buddy::kTargetAttr);
    if (keep && recorded && recorded != wanted) {
      emitError(module.getLoc())
          << "the module was lowered for target '" << recorded.getName()
          << "' and cannot go on for '" << target << "'; leave target out";
      return signalPassFailure();
    }
    module->setAttr(buddy::kTargetAttr, wanted);
  }
};
} // namespace
