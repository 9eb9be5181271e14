//===- Emitter.h - loops and vector code of one contraction ---------------===//
//
// Private to this folder. One class, a file for each kernel:
//   Emitter.cpp       what all share: sizes, loops, element access
//   OuterProduct.cpp  vectors along columns, register tile of rows x vectors
//   Packing.cpp       panels of B, rows of A and results in buffers of a thread
//   Windows.cpp       panels of B from the windows of an image
//   MatrixTile.cpp    matrix tiles of bf16 instead of a register tile's vectors
//   DotProduct.cpp    vectors along the reduction, for few rows
//   Epilogue.cpp      an element-wise op on the results of a task
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_CONTRACTION_EMITTER_H
#define BUDDY_LIB_TRANSFORMS_CONTRACTION_EMITTER_H

#include "../IndexBuilder.h"
#include "Contraction.h"
#include "Epilogue.h"
#include "buddy/Transforms/Passes.h"

namespace buddy {

class ContractionEmitter : IndexBuilder {
public:
  /// `fromZero`: what C holds before is not read, the sums start from zero.
  /// With an epilogue, its output is written, and C is undefined afterwards.
  ContractionEmitter(mlir::OpBuilder &builder, Contraction contraction,
                     ScheduleAttr schedule, bool fromZero,
                     std::optional<Epilogue> epilogue);

  /// Emits the loops at the builder's insertion point. If the reduction is
  /// empty, C is not touched, even with `fromZero`; there may be no epilogue.
  void emit();

private:
  using ValueRange = mlir::ValueRange;
  using Values = llvm::SmallVector<mlir::Value>;

  //===-- Emitter.cpp
  //------------------------------------------------------===//
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
  /// Loops over the outer reductions around `body`. Its arguments are true
  /// where all of them are at their first, or last, iteration; null if there
  /// are none.
  void forOuterReductions(llvm::function_ref<void(Value, Value)> body);

  mlir::VectorType vectorType(mlir::Type element);
  /// The right factors of one vector multiply-add: `vl` accumulators, or as
  /// many pairs of bf16.
  mlir::VectorType factorType();
  /// Elements of `factorType` as an index.
  Value factorLength() { return mul(constant(unit), vectorLength); }
  Value zero(mlir::Type type);
  /// Indices of an operand's element at (row, col, red); outer dimensions are
  /// at their current iteration. Null for a dimension the operand lacks.
  Values indices(const Contraction::Operand &operand, Value row, Value col,
                 Value red);
  /// Loaded element or vector as a factor: of accumulator type, or unchanged
  /// where pairs are multiplied.
  Value convert(const Contraction::Operand &operand, Value loaded);
  Value loadScalar(const Contraction::Operand &operand, ValueRange at);
  /// A vector of a memref's elements along its last dimension; `mask` may be
  /// null, and elements that it leaves out are zero.
  Value loadElements(mlir::VectorType type, Value from, ValueRange at,
                     Value mask);
  /// A vector's length of elements along the operand's last dimension; `mask`
  /// may be null.
  Value loadVector(const Contraction::Operand &operand, ValueRange at,
                   Value mask);
  /// The same, but all that make a `factorType` if that is the reduction.
  Value loadFactors(const Contraction::Operand &operand, ValueRange at,
                    Value mask);
  /// C's element as accumulator.
  Value loadSum(Value row, Value col);
  /// Accumulator type to C's, rounding once.
  Value narrow(Value value);
  /// sum + lhs * rhs, or the products of both elements of each pair.
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
    /// Where B lies in panels: the one that holds these, the first within it.
    Value weightPanel, weightColumn;
  };
  /// Rows of A, rows of B and the reduction range that tiles work on.
  struct Block {
    Value firstRow; ///< Of the task; scratch buffers start here.
    Value redStart, redCount;
    Value packedB;       ///< Buffer of redCount x width; null: B or panels.
    bool masked = false; ///< Loads from B itself are masked.
    /// Nothing was summed before it, nothing will be after it.
    Value isFirst, isLast;
  };
  /// One element of A, or a pair, in all lanes of a `factorType`.
  Value loadRow(const Block &block, Value row, int64_t i, int64_t rows, Value k,
                bool half);
  /// The vector of B at `offset` of a panel. `half`: the second of a pair is
  /// beyond the end and zero.
  Value loadColumns(const Panel &panel, const Block &block, unsigned j, Value k,
                    bool half);
  /// Where B in panels has column `offset` of a panel and element k of a block.
  Values panelIndices(const Panel &panel, const Block &block, Value offset,
                      Value k);
  /// As many elements of B in panels as `factorType` has.
  Value loadPanel(const Panel &panel, const Block &block, Value offset,
                  Value k);
  /// `tiles`: by matrix tiles, whose rows and columns the arguments then are.
  void emitOuterProduct(int64_t rows, int64_t vectors, bool tiles = false);
  /// A panel of so many vectors may reach beyond the last column.
  bool mayBeEdge(int64_t vectors) const;
  Panel makePanel(Value start, Value width, int64_t vectors);
  void emitTiles(const Panel &panel, const Block &block, Value end,
                 int64_t rows);
  void emitTile(const Panel &panel, const Block &block, Value row,
                int64_t rows);
  Values emitReductionLoop(const Panel &panel, const Block &block, Value row,
                           int64_t rows, Values sums);
  /// Runs `body(masked)` for panels inside of C and beyond its edge.
  Values onEdge(const Panel &panel, mlir::TypeRange types,
                llvm::function_ref<Values(bool)> body);
  /// A tile's sums from C or to it, converted.
  Values loadResults(const Panel &panel, const Block &block, Value row,
                     int64_t rows);
  void storeResults(const Panel &panel, const Block &block, Value row,
                    int64_t rows, ValueRange sums);
  /// A tile's sums from or to the scratch buffer.
  Values loadSums(const Panel &panel, const Block &block, Value row,
                  int64_t rows);
  void storeSums(const Panel &panel, const Block &block, Value row,
                 int64_t rows, ValueRange sums);
  Value scratchIndex(const Panel &panel, const Block &block, Value row,
                     Value offset);

  //===-- MatrixTile.cpp --------------------------------------------------===//
  /// The schedule asks for matrix tiles, and the operands have their form.
  bool mayUseTiles() const;
  /// The outer product by matrix tiles.
  void emitMatrixProduct();
  /// A matrix tile of A: row tile `i` at element `k` of the block.
  using TileLoad = llvm::function_ref<Value(int64_t i, Value k)>;
  /// All rows of a block, up to `end`, times a packed panel.
  void emitMatrixTiles(const Panel &panel, const Block &block, Value end);
  /// One register tile: `rowTiles` tiles of rows from `row` on, its sums in C
  /// or in the scratch buffer. `load` takes A from where it is, `loadRest` the
  /// rest of the reduction, with zeros.
  void emitMatrixTile(const Panel &panel, const Block &block, Value row,
                      Value end, int64_t rowTiles, bool inC, TileLoad load,
                      TileLoad loadRest);
  /// The reduction, or the rows, may end within a tile.
  bool mayHaveRest() const;
  bool mayHaveLastRows() const;
  int64_t lastRowsPitch() const;
  void makeTileBuffers(int64_t columnTiles);
  /// A[row.., redStart + from..] to rows of `target`, `pitch` elements apart,
  /// with zeros up to a whole tile.
  void packTileRows(const Block &block, Value row, Value count, Value from,
                    Value target, int64_t pitch);
  /// The panel's last rows, with zeros up to a whole tile, to `restOfB`.
  void packRestOfB(const Panel &panel, const Block &block);
  /// Elements from one row of an operand to the next.
  Value rowStride(const Contraction::Operand &operand);
  Value loadTile(mlir::Type type, Value from, ValueRange at, Value stride);

  //===-- Packing.cpp -----------------------------------------------------===//
  Value stackBuffer(int64_t elements, mlir::Type element);
  /// Type of the elements of packed operands.
  mlir::Type packedType();
  /// Where a buffer with `width` factors a row has that of reduction element
  /// `k`: rows of factors, or of pairs of them.
  Value packedIndex(Value k, Value width, Value n);
  /// B[redStart.., panel] to a buffer as factors, row by row.
  void packB(const Panel &panel, const Block &block);
  void packContiguous(const Panel &panel, const Block &block, bool masked);
  void packTransposed(const Panel &panel, const Block &block);
  void packByScatter(const Panel &panel, const Block &block);
  void packByElement(const Panel &panel, const Block &block);
  /// Runs `body` on the second of a last pair if that is beyond the end.
  void forOddEnd(const Block &block, llvm::function_ref<void(Value)> body);
  Values transpose(Values rows);
  /// A[row.., redStart..] to `packedA` as accumulators, row by row.
  void packA(const Block &block, Value row, int64_t rows);
  /// The same as pairs, column by column.
  void packPairsOfA(const Block &block, Value row, int64_t rows);
  /// A tile of C, element by element, to or from the scratch buffer.
  void readScratch(const Panel &panel, const Block &block, Value row,
                   int64_t rows);
  void writeScratch(const Panel &panel, const Block &block, Value row,
                    int64_t rows);

  //===-- Windows.cpp -----------------------------------------------------===//
  /// Columns of one vector that lie in one row of the output image.
  struct Segment {
    Value from, to; ///< First lane and the one after the last.
    Value column;   ///< Of lane 0 in the row, if it had one: may be negative.
    Values lines;   ///< The row: its place in all dimensions but the last.
  };
  /// The windows of a panel's points to the buffer.
  void packWindows(const Panel &panel, const Block &block);
  llvm::SmallVector<Segment> segmentsOf(const Panel &panel, Value offset);
  void packTap(const Block &block, llvm::ArrayRef<Segment> segments, Value tap,
               Value width, Value offset);
  /// Lanes from <= i < to; no lower bound if `from` is null.
  Value lanes(Value from, Value to);
  /// The place of a number in a row-major array of so many dimensions.
  Values delinearize(Value number, llvm::ArrayRef<int64_t> sizes);

  //===-- DotProduct.cpp --------------------------------------------------===//
  void emitDotProduct();
  void emitDotTile(Value row, int64_t rows, Value col, int64_t cols,
                   Value isFirst);

  //===-- Epilogue.cpp ----------------------------------------------------===//
  /// The epilogue on a task's sums, in the scratch buffer, which starts at
  /// (firstRow, firstCol) of C, or in C if there is none.
  void emitEpilogue(Value firstRow, Value endRow, Value firstCol, Value endCol);

  Contraction c;
  ScheduleAttr schedule;
  bool fromZero;
  std::optional<Epilogue> epilogue;
  int64_t unit;       ///< Elements of the reduction in a multiply-add: 1 or 2.
  Values sizes;       ///< Of each loop dimension.
  Values outer;       ///< Current iteration of each outer loop dimension.
  Value panels;       ///< B in panels, each of them one row; null if it is not.
  Value rowCount;     ///< Size of the row dimension, or 1.
  Value vectorLength; ///< Elements of a vector, vscale included.
  Value work;         ///< Scalar operations of the whole contraction.
  /// Elements that are narrower than accumulators are converted once a tile,
  /// not once a use: a scalar conversion costs as much as the multiply-adds.
  /// Pairs that are not contiguous are put together once a tile.
  bool packsA = false;
  /// Between blocks of the reduction, sums are kept in a scratch buffer of
  /// accumulators instead of C: those that are rounded, so that it happens
  /// once, those not contiguous along columns, and those that an epilogue takes
  /// from there.
  bool usesScratch = false;
  Value packedA, scratchC;          ///< Buffers of the current task.
  Value scratchStart, scratchWidth; ///< Columns that scratchC holds.
  /// Of matrix tiles: rests of the reduction with zeros, A's last rows.
  Value restOfA, restOfB, lastRows;
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_CONTRACTION_EMITTER_H
