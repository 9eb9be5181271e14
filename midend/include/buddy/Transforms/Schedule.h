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

/// Elements of a vector of 32-bit ones, and vectors of a panel, for weights
/// laid out ahead. A scalable vector is used at a fixed length, since a layout
/// in a file cannot depend on it: four registers of the shortest vectors (128
/// bits), as many as the register file leaves room for.
std::pair<int64_t, int64_t> panelVectors(const TargetInfo &target);

} // namespace buddy

#endif // BUDDY_TRANSFORMS_SCHEDULE_H
