//===- WeightPacking.h - weights laid out for the kernels -------*- C++ -*-===//
//
// Private to this folder: the kinds of packing that buddy-pack-weights knows,
// a file each. PackQuantized.cpp has blocks of small integers, PackPanels.cpp
// floats.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_GRAPH_WEIGHTPACKING_H
#define BUDDY_LIB_TRANSFORMS_GRAPH_WEIGHTPACKING_H

#include "buddy/Dialect/Buddy.h"
#include "buddy/Target/TargetInfo.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

namespace buddy {

/// The packing of a weight [n, k] in a quantised format, or null if the format
/// cannot hold it.
PackingAttr chooseQuantized(mlir::MLIRContext *context, llvm::StringRef format,
                            llvm::ArrayRef<int64_t> shape,
                            const TargetInfo &target);

/// The use multiplies rows [.., k] by a weight [n, k].
bool isQuantizableUse(mlir::OpOperand &use);

/// Rewrites such a use to a product with the packed weight, of rows quantised
/// to int8 or as f32.
void packQuantizedUse(mlir::RewriterBase &rewriter, mlir::OpOperand &use,
                      PackingAttr packing, bool quantizesRows,
                      const TargetInfo &target);

/// Element [n, k] of the packed weight that `extract` reads.
mlir::Value extractQuantized(mlir::RewriterBase &rewriter,
                             mlir::tensor::ExtractOp extract,
                             PackingAttr packing);

/// The panels of a float weight [n, k], or [k, n] if `transposed`; null if
/// nothing would read them.
PanelsAttr choosePanels(mlir::MemRefType type, bool transposed,
                        const TargetInfo &target);

/// Whether the use is a contraction that computes vectors along the first
/// dimension of a weight matrix (false) or its second one (true); nothing if it
/// is no such contraction.
std::optional<bool> matchPanelUse(mlir::OpOperand &use);

/// Rewrites such a use to the same contraction of panels.
void packPanelUse(mlir::RewriterBase &rewriter, mlir::OpOperand &use,
                  PanelsAttr panels);

/// Element [i, j] of the weight in panels that `extract` reads.
mlir::Value extractFromPanels(mlir::RewriterBase &rewriter,
                              mlir::tensor::ExtractOp extract,
                              PanelsAttr panels);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_GRAPH_WEIGHTPACKING_H
