//===- LoopEmitter.h - loops of one linalg op on buffers --------*- C++ -*-===//
//
// What both the scalar and the vector form of a loop body need to know: the op,
// the sizes and the induction variables. Private to the kernel passes.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_KERNEL_LOOPEMITTER_H
#define BUDDY_KERNEL_LOOPEMITTER_H

#include "buddy/Target/TargetInfo.h"
#include "buddy/Transforms/Passes.h"
#include <optional>
#include <string>

namespace buddy {

/// Emits one linalg op as loops: parallel dimensions outside, of which the
/// leading ones form an OpenMP loop, reductions inside with their accumulators
/// in registers. The innermost loop works on vectors where every operand is
/// contiguous or constant along it, and on scalars for the rest of its range.
class LoopEmitter {
public:
  LoopEmitter(mlir::OpBuilder &builder, mlir::linalg::LinalgOp op,
              const TargetInfo &target)
      : builder(builder), loc(op.getLoc()), op(op), target(target) {}

  void emit();

private:
  /// One step of a loop body: an element, or a vector of them along
  /// dimension `dim`.
  struct Step {
    mlir::VectorType shape; ///< Of any element type; null for an element.
    unsigned dim = 0;
    mlir::Value mask; ///< Lanes that exist; null if all do.

    /// The step's vector of so typed elements.
    mlir::VectorType of(mlir::Type element) const {
      return mlir::VectorType::get(shape.getShape(), element,
                                   shape.getScalableDims());
    }
  };

  mlir::Value constant(int64_t v) {
    return mlir::arith::ConstantIndexOp::create(builder, loc, v);
  }
  /// `map` applied to the current induction variables.
  llvm::SmallVector<mlir::Value> indices(mlir::AffineMap map);
  /// An operand at the current point.
  mlir::Value load(mlir::OpOperand &operand, const Step &step);
  /// An output's value at the current point, to memory.
  void store(mlir::Value value, mlir::OpOperand &output, const Step &step);
  /// True if the output is an accumulator: it stays at one element while the
  /// reductions run. Others are written at each point.
  bool isCarried(mlir::OpOperand &output);
  /// The accumulators, in the op's order.
  llvm::SmallVector<mlir::OpOperand *> carriedOutputs();
  /// Loads what is not carried, computes, stores; returns the new carried
  /// values.
  llvm::SmallVector<mlir::Value> point(mlir::ValueRange carried,
                                       const Step &step);
  /// The op's body once; accumulators and results are of the step's shape.
  llvm::SmallVector<mlir::Value> body(mlir::ValueRange accumulators,
                                      const Step &step);
  /// A value of the step's shape, the same in all lanes.
  mlir::Value broadcast(mlir::Value v, const Step &step);

  /// The vector that the innermost loop over `dim` can use, or null.
  /// `outputs`: they are written in such vectors too.
  mlir::VectorType chooseVector(unsigned dim, bool outputs = true);
  /// Why the body cannot be computed on vectors along `dim`; empty if it can.
  std::string obstacle(unsigned dim, bool outputs);
  /// The last step of a loop may be a vector of which some lanes do not exist.
  bool mayMask();
  bool usesFloat16();
  /// The one op that combines elements of a carried output; null if it is not
  /// one.
  mlir::Operation *combinerOf(mlir::OpOperand &output);
  /// The combining operation of each carried output, if all are known and have
  /// a neutral element.
  std::optional<llvm::SmallVector<mlir::vector::CombiningKind>> combiners();
  /// These elements, in the step's shape.
  llvm::SmallVector<mlir::Value> neutralElements(const Step &step);

  void emitLoops();
  /// Leaves a remark if the loops are over floats and without vectors.
  void reportScalar();
  void emitParallel(llvm::ArrayRef<unsigned> dims);
  /// The innermost parallel loop over lower <= iv < upper.
  void emitInnermost(unsigned dim, mlir::Value lower, mlir::Value upper);
  void emitPoint(const Step &step);
  /// The last two of the loops `dims` write the output's last two dimensions,
  /// of which the very last is 2, 4 or 8 elements that are apart in what is
  /// read: vectors along the other one are interleaved.
  bool interleaves(llvm::ArrayRef<unsigned> dims);
  void emitInterleaved(unsigned dim, unsigned last);
  llvm::SmallVector<mlir::Value> emitReductions(llvm::ArrayRef<unsigned> dims,
                                                mlir::ValueRange accumulators,
                                                const Step &step);
  /// The innermost reduction loop of columns, in a few sums side by side: each
  /// has fewer terms, which rounds less. Returns as emitVectorReduction does.
  std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>
  emitInterleavedReduction(unsigned dim, mlir::ValueRange accumulators,
                           const Step &step);
  /// Every output has another element at each step of a parallel loop.
  bool movesAll(unsigned dim);
  /// Reductions are best vectorized across them, along the parallel loop `dim`:
  /// within one the elements are not adjacent, or too few.
  bool reducesColumns(unsigned dim);
  /// The innermost reduction loop by vectors as far as whole vectors go;
  /// returns the combined accumulators and where the rest begins.
  std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>
  emitVectorReduction(unsigned dim, mlir::ValueRange accumulators);
  /// Elements in a vector, as an index; vscale counted.
  mlir::Value vectorSize(mlir::VectorType type);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::linalg::LinalgOp op;
  const TargetInfo &target;
  llvm::SmallVector<mlir::Value> sizes; ///< Trip count of each dimension.
  llvm::SmallVector<mlir::Value> ivs;   ///< Induction variable of each.
  llvm::SmallVector<unsigned> reductions;
  /// Why the innermost loop has no vectors; empty if it has, or is no loop.
  std::string scalarReason;
};

} // namespace buddy

#endif // BUDDY_KERNEL_LOOPEMITTER_H
