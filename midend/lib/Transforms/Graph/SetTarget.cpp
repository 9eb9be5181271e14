//===- SetTarget.cpp - record the machine compiled for --------------------===//

#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_SETTARGET
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

mlir::FailureOr<buddy::TargetInfo> buddy::findTarget(mlir::Operation *op) {
  auto module = mlir::dyn_cast<mlir::ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<mlir::ModuleOp>();
  auto recorded =
      module ? module->getAttrOfType<TargetAttr>(kTargetAttr) : TargetAttr();
  auto info = getTargetInfo(recorded ? recorded.getName() : "native");
  if (info)
    return *info;
  return mlir::emitError(op->getLoc(), llvm::toString(info.takeError()));
}

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
