//===- Emitter.h - loops and vector code of one contraction ---------------===//
//
// Private to this folder. One class, a file for each kernel:
//   Emitter.cpp       what all share: sizes, loops, element access
//   OuterProduct.cpp  vectors along columns, register tile of rows x vectors
//   Packing.cpp       panels of B, rows of A and results in buffers of a thread
//   DotProduct.cpp    vectors along the reduction, for few rows
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_CONTRACTION_EMITTER_H
#define BUDDY_LIB_TRANSFORMS_CONTRACTION_EMITTER_H

#include "Contraction.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace buddy {

class ContractionEmitter {
public:
  /// `fromZero`: what C holds before is not read, the sums start from zero.
  ContractionEmitter(mlir::OpBuilder &builder, Contraction contraction,
                     ScheduleAttr schedule, bool fromZero);

  /// Emits the loops at the builder's insertion point. If the reduction is
  /// empty, C is not touched, even with `fromZero`.
  void emit();

private:
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;
  using Values = llvm::SmallVector<mlir::Value>;

  //===-- Emitter.cpp
  //------------------------------------------------------===//
  Value constant(int64_t value);
  Value add(Value lhs, Value rhs);
  Value sub(Value lhs, Value rhs);
  Value mul(Value lhs, Value rhs);
  Value minimum(Value lhs, Value rhs);
  /// `value` rounded down to a multiple of the positive constant `factor`.
  Value roundDown(Value value, Value factor);
  Value lessThan(Value lhs, Value rhs);
  Value bothOf(Value lhs, Value rhs); ///< Null stands for true.
  /// A sequential loop; `body` returns the values carried on.
  Values forLoop(Value lower, Value upper, Value step, ValueRange init,
                 llvm::function_ref<Values(Value, ValueRange)> body);
  void forLoop(Value lower, Value upper, Value step,
               llvm::function_ref<void(Value)> body);
  Values ifElse(Value condition, mlir::TypeRange types,
                llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  /// One branch only, without an op, if the condition is known.
  void ifElse(Value condition, llvm::function_ref<void()> then,
              llvm::function_ref<void()> otherwise);
  /// Runs `body(row, count)` on tiles of `largest` rows and then of smaller
  /// powers of two that cover [lower, upper). `total`, if static, is the number
  /// of rows left over after whole blocks: tiles that cannot occur are not
  /// emitted.
  void forRowTiles(Value lower, Value upper, int64_t largest, int64_t total,
                   llvm::function_ref<void(Value, int64_t)> body);
  /// Loops over the outer reductions around `body`. Its argument is true where
  /// all of them are 0; null if there are none.
  void forOuterReductions(llvm::function_ref<void(Value)> body);

  mlir::VectorType vectorType(mlir::Type element);
  Value zero(mlir::Type type);
  /// Indices of an operand's element at (row, col, red); outer dimensions are
  /// at their current iteration. Null for a dimension the operand lacks.
  Values indices(const Contraction::Operand &operand, Value row, Value col,
                 Value red);
  /// Loaded element or vector as accumulator type.
  Value convert(const Contraction::Operand &operand, Value loaded);
  Value loadScalar(const Contraction::Operand &operand, ValueRange at);
  /// Elements along the operand's last dimension; `mask` may be null.
  Value loadVector(const Contraction::Operand &operand, ValueRange at,
                   Value mask);
  /// C's element as accumulator.
  Value loadSum(Value row, Value col);
  /// Accumulator type to C's, rounding once.
  Value narrow(Value value);
  /// sum + lhs * rhs.
  Value multiplyAdd(Value lhs, Value rhs, Value sum);
  /// Makes the contiguous dimension the last one, as vector ops want it.
  void makeLast(Contraction::Operand &operand, unsigned dim);

  //===-- OuterProduct.cpp ------------------------------------------------===//
  /// Columns that one task computes, in `vectors` vectors.
  struct Panel {
    Value start, width;
    Value isEdge;   ///< Some columns are beyond the end; null if it never is.
    Values offsets; ///< First column of each vector, from `start`.
    Values masks;   ///< Columns that exist, a vector's each; if it may be edge.
  };
  /// Rows of A, rows of B and the reduction range that tiles work on.
  struct Block {
    Value firstRow; ///< Of the task; scratch buffers start here.
    Value redStart, redCount;
    Value packedB;       ///< Buffer of redCount x width; null: B itself.
    bool masked = false; ///< Loads from B itself are masked.
    Value isFirst;       ///< C is not read. Null: it always is.
  };
  void emitOuterProduct(int64_t rows, int64_t vectors);
  /// A panel of so many vectors may reach beyond the last column.
  bool mayBeEdge(int64_t vectors) const;
  Panel makePanel(Value start, Value width, int64_t vectors);
  void emitTiles(const Panel &panel, const Block &block, Value end,
                 int64_t rows);
  void emitTile(const Panel &panel, const Block &block, Value row,
                int64_t rows);
  Values emitReductionLoop(const Panel &panel, const Block &block, Value row,
                           int64_t rows, Values sums);
  Values loadSums(const Panel &panel, const Block &block, Value row,
                  int64_t rows, bool masked);
  void storeSums(const Panel &panel, const Block &block, Value row,
                 int64_t rows, ValueRange sums, bool masked);

  //===-- Packing.cpp -----------------------------------------------------===//
  Value stackBuffer(int64_t elements);
  /// B[redStart.., panel] to a buffer as accumulators, row by row.
  void packB(const Panel &panel, const Block &block);
  void packContiguous(const Panel &panel, const Block &block, bool masked);
  void packTransposed(const Panel &panel, const Block &block);
  void packByScatter(const Panel &panel, const Block &block);
  void packByElement(const Panel &panel, const Block &block);
  Values transpose(Values rows);
  /// A[row.., redStart..] to `packedA` as accumulators, row by row.
  void packA(const Block &block, Value row, int64_t rows);
  /// C[firstRow..end, panel] to or from `scratchC`.
  void readScratch(const Panel &panel, Value firstRow, Value end);
  void writeScratch(const Panel &panel, Value firstRow, Value end);

  //===-- DotProduct.cpp --------------------------------------------------===//
  void emitDotProduct();
  void emitDotTile(Value row, int64_t rows, Value col, int64_t cols,
                   Value isFirst);

  mlir::ImplicitLocOpBuilder b;
  Contraction c;
  ScheduleAttr schedule;
  bool fromZero;
  Values sizes;       ///< Of each loop dimension.
  Values outer;       ///< Current iteration of each outer loop dimension.
  Value rowCount;     ///< Size of the row dimension, or 1.
  Value vectorLength; ///< Elements of a vector, vscale included.
  Value work;         ///< Scalar operations of the whole contraction.
  /// Elements that are narrower than accumulators are converted once a tile,
  /// not once a use: a scalar conversion costs as much as the multiply-adds.
  bool convertsA = false;
  /// Results go through a scratch buffer of accumulators: those that are
  /// rounded, so that it happens once, and those not contiguous along columns.
  bool usesScratch = false;
  Value packedA, scratchC; ///< Buffers of the current task.
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_CONTRACTION_EMITTER_H
