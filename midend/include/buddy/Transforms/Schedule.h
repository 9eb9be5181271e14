//===- Schedule.h - the policy about contractions ---------------*- C++ -*-===//

#ifndef BUDDY_TRANSFORMS_SCHEDULE_H
#define BUDDY_TRANSFORMS_SCHEDULE_H

#include "buddy/Dialect/Buddy.h"
#include "buddy/Target/TargetInfo.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace buddy {

/// The schedule that buddy-choose-schedule writes on a contraction, on tensors
/// or memrefs, for passes that make contractions of their own. Null if no
/// generator takes the op.
ScheduleAttr chooseSchedule(mlir::linalg::LinalgOp op,
                            const TargetInfo &target);

} // namespace buddy

#endif // BUDDY_TRANSFORMS_SCHEDULE_H
