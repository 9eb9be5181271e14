//===- ModuleTarget.h - the machine a module is compiled for ----*- C++ -*-===//

#ifndef BUDDY_TRANSFORMS_MODULETARGET_H
#define BUDDY_TRANSFORMS_MODULETARGET_H

#include "buddy/Target/TargetInfo.h"
#include "mlir/IR/Operation.h"

namespace buddy {

/// The description of the target that the module of `op` records as
/// `buddy.target`, or of `native` if it records none. An unknown name is an
/// error at the op's location.
mlir::FailureOr<TargetInfo> findTarget(mlir::Operation *op);

} // namespace buddy

#endif // BUDDY_TRANSFORMS_MODULETARGET_H
