//===- CollapseLoops.h - loops over adjacent dimensions as one --*- C++ -*-===//

#ifndef BUDDY_KERNEL_COLLAPSELOOPS_H
#define BUDDY_KERNEL_COLLAPSELOOPS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/PatternMatch.h"

namespace buddy {

/// Makes one loop of neighbours of a kind that go over each operand's memory
/// without a gap between them: short rows then fill vectors. The op is on
/// memrefs; returns what is there instead, or the op where nothing collapses.
mlir::linalg::LinalgOp collapseLoops(mlir::RewriterBase &rewriter,
                                     mlir::linalg::LinalgOp op);

} // namespace buddy

#endif // BUDDY_KERNEL_COLLAPSELOOPS_H
