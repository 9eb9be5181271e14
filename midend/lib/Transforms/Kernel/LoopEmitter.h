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
#include "mlir/IR/IRMapping.h"
#include <optional>
#include <string>

namespace buddy {

/// Emits one linalg op as loops: parallel dimensions outside, of which the
/// leading ones form an OpenMP loop, reductions inside with their accumulators
/// in registers. The innermost loop works on vectors where every operand is
/// contiguous or constant along it, and on scalars for the rest of its range.
/// What the body reads at computed places may be anywhere.
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
  /// How a value of the body differs between the lanes of a vector.
  enum class Lanes {
    Same,     ///< Not at all: a scalar does.
    Counting, ///< By one from lane to lane: the first lane's does.
    Backward, ///< By minus one: likewise.
    Computed, ///< By arithmetic on loop indices.
    Data,     ///< By what lies in memory.
  };
  /// Of the values in the body that are not the same in all lanes.
  using LaneMap = llvm::DenseMap<mlir::Value, Lanes>;
  /// What the body's values have become at one point.
  struct BodyValues {
    LaneMap lanes;
    mlir::IRMapping scalars; ///< Those that are the same, or the first lane's.
    mlir::IRMapping vectors;
  };
  static Lanes lanesOf(const LaneMap &lanes, mlir::Value v);
  static bool isScalar(const LaneMap &lanes, mlir::Value v);
  /// How the results of an op differ of whose operands some count.
  static Lanes counting(mlir::Operation &inner, const LaneMap &lanes);
  /// How the body's values differ between iterations of these loops.
  LaneMap classify(llvm::ArrayRef<unsigned> dims);
  /// A value of the body as a scalar; constants are made on demand.
  mlir::Value scalarOf(mlir::Value v, mlir::IRMapping &scalars);
  /// A value of the body as a vector.
  mlir::Value vectorOf(mlir::Value v, BodyValues &values, const Step &step);
  /// Computes here what the loops `inside`, all that are still to be opened, do
  /// not change. It holds until `hoisted` is set back.
  void hoist(llvm::ArrayRef<unsigned> inside);
  /// A load in the body stays in one row, of adjacent elements.
  static bool movesInRow(mlir::memref::LoadOp load, const LaneMap &lanes);
  /// Vectors along `dim` are not known to read adjacent elements in the body.
  bool gathers(unsigned dim);
  /// What a load in the body reads for a vector's lanes: one vector if they are
  /// adjacent, which is found out at run time where the places are computed.
  mlir::Value loadLanes(mlir::memref::LoadOp load, BodyValues &values,
                        const Step &step);

  /// Where a vector of an operand's adjacent elements lies: the operand, or its
  /// memory as one dimension, and the indices.
  std::pair<mlir::Value, llvm::SmallVector<mlir::Value>>
  adjacentPlace(mlir::OpOperand &operand);
  /// Adjacent elements of an operand from the current point on.
  mlir::Value loadVector(mlir::OpOperand &operand, const Step &step);
  /// Writes an output at the current point.
  void store(mlir::Value value, mlir::OpOperand &output, const Step &step);
  /// An operand at the current point; a scalar if the lanes share it.
  mlir::Value load(mlir::OpOperand &operand, const Step &step);
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

  /// A step of one along `dim` is one to the next element in memory.
  bool isAdjacent(mlir::OpOperand &operand, unsigned dim);
  /// The last dimension along which all outputs are adjacent; the last of all
  /// if there is none.
  unsigned chooseInnermost(llvm::ArrayRef<unsigned> parallel);
  /// The dimension along which all inputs are adjacent that are not so along
  /// `dim`, these inputs in `transposed`; nothing if there are none, or if they
  /// do not agree.
  std::optional<unsigned> findTransposed(unsigned dim);
  bool isTransposed(mlir::OpOperand &operand);
  /// A tile whose first element is at the current point, its rows along
  /// `across`.
  void emitTile(unsigned across, const Step &step);
  /// The loops in square tiles, the last parallel dimension inside, if inputs
  /// are transposed; false if nothing was emitted.
  bool emitTiles(llvm::ArrayRef<unsigned> parallel, mlir::Value work);

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
  void emitInterleaved(unsigned dim, unsigned last, mlir::Value lower,
                       mlir::Value upper);
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
  /// within one the elements are not adjacent, or gathered, or too few.
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
  /// Inputs that are read in tiles; the rows of the current one, and which of
  /// them the current point is in.
  llvm::SmallVector<mlir::OpOperand *> transposed;
  llvm::DenseMap<mlir::OpOperand *, llvm::SmallVector<mlir::Value>> tiles;
  int64_t tileRow = 0;
  mlir::IRMapping hoisted; ///< The body's values that are computed already.
  /// Why the innermost loop has no vectors; empty if it has, or is no loop.
  std::string scalarReason;
};

} // namespace buddy

#endif // BUDDY_KERNEL_LOOPEMITTER_H
