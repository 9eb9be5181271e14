//===- Attention.h - attention over blocks of keys --------------*- C++ -*-===//
//
// Private to this folder. One class, two files:
//   LowerAttention.cpp  sizes, tasks and splits: who computes what
//   Blocks.cpp          the pieces of a task: linalg ops on a thread's buffers
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_ATTENTION_ATTENTION_H
#define BUDDY_LIB_TRANSFORMS_ATTENTION_ATTENTION_H

#include "../IndexBuilder.h"
#include "buddy/Target/TargetInfo.h"
#include "buddy/Transforms/Passes.h"

namespace buddy {

/// Emits one `buddy.attention_into` on memrefs. A task is a block of queries of
/// all query heads that share a key head, and a range of keys. Rows of its
/// buffers are [query, head of the group], so that fewer queries are fewer
/// rows.
class AttentionEmitter : IndexBuilder {
public:
  AttentionEmitter(mlir::OpBuilder &builder, AttentionIntoOp op,
                   const TargetInfo &target);

  /// Emits at the builder's insertion point.
  void emit();

private:
  using ValueRange = mlir::ValueRange;
  using Values = llvm::SmallVector<mlir::Value>;
  using Sizes = llvm::SmallVector<mlir::OpFoldResult>;
  using Body = llvm::function_ref<Values(mlir::OpBuilder &, ValueRange)>;

  struct Task {
    Values batch;               ///< Index of each batch dimension.
    Value head;                 ///< Key head.
    Value firstQuery;           ///< Of the block.
    mlir::OpFoldResult queries; ///< In the block.
    mlir::OpFoldResult rows;    ///< queries * group.
    Value firstKey, endKey;     ///< Of the split; up to the last one visible.
    Value slot;                 ///< Where its partial results go, if anywhere.
  };

  /// Of a thread, [block of queries, group, …]. Rows are [rows, …] views.
  struct Buffers {
    Value query;   ///< Scaled queries.
    Value score;   ///< Scores of a block of keys, then their exponentials.
    Value sum;     ///< Exponentials times values.
    Value max;     ///< Running maximum of a row's scores.
    Value weight;  ///< Running sum of a row's exponentials.
    Value rescale; ///< Factor of a row's sums for the new maximum.
    Value factor;  ///< The same for the sums of a partial result.
  };

  //===-- LowerAttention.cpp ----------------------------------------------===//
  void chooseBlocks();
  void chooseSplits();
  Task makeTask(ValueRange ivs);
  /// Index of the block that iteration `iv` computes: costly blocks of causal
  /// attention are paired with cheap ones.
  Value permuteBlock(Value iv);
  /// The number of the task, without its split.
  Value linearIndex(ValueRange ivs);
  void emitTask(const Task &task);
  void emitCombination();

  Value materialize(mlir::OpFoldResult value);

  //===-- Blocks.cpp ------------------------------------------------------===//
  /// A part of a memref without the dimensions that `dropped` names.
  Value part(Value memref, const Sizes &offsets, const Sizes &sizes,
             llvm::ArrayRef<unsigned> dropped);
  /// The first `queries` of a buffer, and so many of its columns, if it has.
  Value head(Value buffer, mlir::OpFoldResult queries,
             mlir::OpFoldResult columns = {}, mlir::OpFoldResult offset = {});
  /// The same with queries and group as one dimension, rows.
  Value rows(Value buffer, mlir::OpFoldResult rows,
             mlir::OpFoldResult columns = {});
  /// A task's part of a partial result, laid out like a buffer.
  Value slotPart(Value partial, const Task &task, Value slot,
                 mlir::OpFoldResult columns = {});
  /// [group, queries, size] of a query-shaped operand.
  Value queryPart(Value operand, const Task &task, Value size);
  /// [count, size] of a key-shaped operand.
  Value keyPart(Value operand, const Task &task, Value first, Value count,
                Value size);
  void generic(ValueRange inputs, ValueRange outputs,
               llvm::ArrayRef<llvm::ArrayRef<unsigned>> maps, unsigned dims,
               bool reducesLast, Body body);
  void fill(Value buffer, double value);
  void contract(Value a, Value b, Value c,
                llvm::ArrayRef<llvm::ArrayRef<unsigned>> maps);

  /// Heads of static size 0 have no views, and scores that are 0.
  bool hasDepth() const {
    return mlir::getConstantIntValue(depth) != int64_t(0);
  }
  Buffers makeBuffers();
  void loadQueries(const Task &task, const Buffers &buffers);
  void clear(const Task &task, const Buffers &buffers);
  void emitBlock(const Task &task, const Buffers &buffers, Value key);
  void applyMask(const Task &task, const Buffers &buffers, Value key,
                 Value count);
  /// -inf for what causal attention hides and beyond the last key.
  void hideColumns(const Task &task, const Buffers &buffers, Value key,
                   Value count, Value paddedCount);
  void storeResult(const Task &task, const Buffers &buffers);
  void storePartial(const Task &task, const Buffers &buffers);
  /// Adds a partial result to the sums.
  void addPartial(const Task &task, const Buffers &buffers, Value slot);

  Value scalar(mlir::OpBuilder &at, double value);
  Value convert(mlir::OpBuilder &at, Value value, mlir::Type type);

  AttentionIntoOp op;
  const TargetInfo &target;
  mlir::Type element, compute;
  unsigned batch; ///< Batch dimensions.
  int64_t heads;  ///< Key heads.
  int64_t group;  ///< Query heads of a key head.
  bool causal;
  Values batchSizes;
  Value queryCount, keyCount, depth, width; ///< T, S, D and Dv.
  int64_t lanes;           ///< Columns of scores are padded to a multiple.
  int64_t blockQueries;    ///< Queries of a task.
  int64_t blockKeys;       ///< Keys of a step.
  Value blocks;            ///< Blocks of queries.
  Value tasks;             ///< Tasks, splits not counted.
  Value splits, splitKeys; ///< Ranges of keys, and their size.
  Value diagonal;          ///< Query i sees key j <= i + diagonal.
  bool maySplit = false;
  /// Partial results of each task and split: sums, maxima and weights.
  Value partialSum, partialMax, partialWeight;
};

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_ATTENTION_ATTENTION_H
