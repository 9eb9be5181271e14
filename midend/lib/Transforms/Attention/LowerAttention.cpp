//===- LowerAttention.cpp - attention as a loop over blocks of keys -------===//
//
// Enters: buddy.attention_into on memrefs. Leaves: a parallel loop over tasks
// whose bodies are linalg ops on buffers of the thread, and, where keys are
// split, a second one that combines the splits. Results do not depend on the
// number of threads: tasks and splits follow from sizes alone.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Parallel.h"
#include "llvm/ADT/bit.h"
#include <numeric>

namespace buddy {
#define GEN_PASS_DEF_LOWERATTENTION
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// Keys of a block; ranges into which keys are split have at least the most.
static constexpr int64_t kLeastKeys = 64, kMostKeys = 512;
/// What a dynamic head size is taken for when blocks are chosen.
static constexpr int64_t kAssumedDepth = 128;

AttentionEmitter::AttentionEmitter(OpBuilder &builder, AttentionIntoOp op,
                                   const TargetInfo &target)
    : IndexBuilder(op.getLoc(), builder), op(op), target(target) {
  auto q = cast<MemRefType>(op.getQuery().getType());
  auto k = cast<MemRefType>(op.getKey().getType());
  element = q.getElementType();
  compute =
      element.getIntOrFloatBitWidth() < 32 ? Type(b.getF32Type()) : element;
  batch = q.getRank() - 3;
  heads = k.getDimSize(batch);
  group = q.getDimSize(batch) / heads;
  causal = op.getCausal() != "none";
  // The static size, whichever operand knows it.
  auto size = [&](Value one, Value other, unsigned dim) {
    auto type = cast<MemRefType>(one.getType());
    if (type.isDynamicDim(dim) &&
        !cast<MemRefType>(other.getType()).isDynamicDim(dim))
      one = other;
    return materialize(memref::getMixedSize(b, b.getLoc(), one, dim));
  };
  for (unsigned i = 0; i < batch; ++i)
    batchSizes.push_back(size(op.getQuery(), op.getKey(), i));
  queryCount = size(op.getQuery(), op.getInit(), batch + 1);
  keyCount = size(op.getKey(), op.getValue(), batch + 1);
  depth = size(op.getQuery(), op.getKey(), batch + 2);
  width = size(op.getValue(), op.getInit(), batch + 2);
  lanes =
      target.scalableVectors
          ? 1
          : std::max(1u, target.vectorLength(compute.getIntOrFloatBitWidth()));
}

Value AttentionEmitter::materialize(OpFoldResult value) {
  return getValueOrCreateConstantIndexOp(b, b.getLoc(), value);
}

//===-- Sizes -------------------------------------------------------------===//

void AttentionEmitter::chooseBlocks() {
  auto known = [](Value value, int64_t assumed) {
    return getConstantIntValue(value).value_or(assumed);
  };
  int64_t bytes = compute.getIntOrFloatBitWidth() / 8;
  int64_t columns = std::max<int64_t>(1, known(depth, kAssumedDepth) +
                                             known(width, kAssumedDepth));
  // A block of keys and values takes a quarter of the second-level cache, the
  // scores an eighth: they pass through it between the contractions.
  int64_t l2 = target.l2Bytes;
  blockKeys = llvm::bit_floor<uint64_t>(l2 / (4 * columns * bytes));
  blockKeys = std::clamp(blockKeys, kLeastKeys, kMostKeys);
  // Rows of a task: with fewer than four register tiles, packing a block of
  // keys does not pay; more than 16 only take cache. A multiple of a tile
  // leaves no partial one.
  int64_t tile = target.tileRows();
  int64_t rowCount =
      std::clamp<int64_t>(l2 / (8 * blockKeys * bytes), 4 * tile, 16 * tile);
  int64_t step = tile / std::gcd(group, tile);
  blockQueries = llvm::alignTo(std::max<int64_t>(1, rowCount / group), step);
  if (std::optional<int64_t> t = getConstantIntValue(queryCount))
    blockQueries =
        std::clamp<int64_t>(blockQueries, 1, std::max<int64_t>(1, *t));
  if (std::optional<int64_t> s = getConstantIntValue(keyCount))
    blockKeys = std::min<int64_t>(
        blockKeys, llvm::alignTo(std::max<int64_t>(1, *s), lanes));
}

void AttentionEmitter::chooseSplits() {
  Value one = constant(1);
  blocks = divide(add(queryCount, constant(blockQueries - 1)),
                  constant(blockQueries));
  tasks = mul(constant(heads), blocks);
  for (Value size : batchSizes)
    tasks = mul(tasks, size);
  Value divisor = maximum(tasks, one);
  Value wanted =
      divide(add(constant(target.parallelTasks - 1), divisor), divisor);
  Value possible = divide(keyCount, constant(kMostKeys));
  Value count = maximum(one, minimum(wanted, possible));
  splitKeys = maximum(roundUp(divide(add(keyCount, sub(count, one)), count),
                              constant(std::max<int64_t>(lanes, 16))),
                      one);
  splits = maximum(one, divide(add(keyCount, sub(splitKeys, one)), splitKeys));
  maySplit = getConstantIntValue(splits) != 1;
  if (!maySplit)
    return;
  // Nothing is needed if nothing is split.
  Value slots = mul(tasks, splits);
  Value isSplit =
      b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sgt, splits, one);
  slots = b.createOrFold<arith::SelectOp>(isSplit, slots, constant(0));
  auto buffer = [&](ArrayRef<int64_t> shape, ValueRange sizes) -> Value {
    return memref::AllocOp::create(b, MemRefType::get(shape, compute), sizes,
                                   b.getI64IntegerAttr(64));
  };
  int64_t any = ShapedType::kDynamic;
  if (std::optional<int64_t> n = getConstantIntValue(width))
    partialSum = buffer({any, blockQueries, group, *n}, slots);
  else
    partialSum = buffer({any, blockQueries, group, any}, {slots, width});
  partialMax = buffer({any, blockQueries, group}, slots);
  partialWeight = buffer({any, blockQueries, group}, slots);
}

//===-- Tasks -------------------------------------------------------------===//

Value AttentionEmitter::linearIndex(ValueRange ivs) {
  Values sizes(batchSizes);
  sizes.push_back(constant(heads));
  sizes.push_back(blocks);
  Value index = constant(0);
  for (auto [iv, size] : llvm::zip(ivs, sizes))
    index = add(mul(index, size), iv);
  return index;
}

Value AttentionEmitter::permuteBlock(Value iv) {
  if (!causal)
    return iv;
  // 0, last, 1, last - 1, …: a thread's share of consecutive iterations has
  // as much work as any other.
  Value two = constant(2);
  Value half = divide(iv, two);
  Value isOdd = b.createOrFold<arith::CmpIOp>(
      arith::CmpIPredicate::ne, b.createOrFold<arith::RemUIOp>(iv, two),
      constant(0));
  Value fromEnd = sub(sub(blocks, constant(1)), half);
  return b.createOrFold<arith::SelectOp>(isOdd, fromEnd, half);
}

AttentionEmitter::Task AttentionEmitter::makeTask(ValueRange ivs) {
  Task task;
  task.batch.assign(ivs.begin(), ivs.begin() + batch);
  task.head = ivs[batch];
  task.firstQuery = mul(permuteBlock(ivs[batch + 1]), constant(blockQueries));
  std::optional<int64_t> t = getConstantIntValue(queryCount);
  if (t && *t % blockQueries == 0) {
    task.queries = b.getIndexAttr(blockQueries);
    task.rows = b.getIndexAttr(blockQueries * group);
    return task;
  }
  Value count =
      minimum(constant(blockQueries), sub(queryCount, task.firstQuery));
  task.queries = count;
  task.rows = mul(count, constant(group));
  return task;
}

void AttentionEmitter::emitTask(const Task &task) {
  Buffers buffers = makeBuffers();
  loadQueries(task, buffers);
  clear(task, buffers);
  auto loop =
      scf::ForOp::create(b, task.firstKey, task.endKey, constant(blockKeys));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    emitBlock(task, buffers, loop.getInductionVar());
  }
  if (!maySplit)
    return storeResult(task, buffers);
  Value isWhole = b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq,
                                                splits, constant(1));
  scf::IfOp::create(
      b, isWhole,
      [&](OpBuilder &, Location) {
        storeResult(task, buffers);
        scf::YieldOp::create(b);
      },
      [&](OpBuilder &, Location) {
        storePartial(task, buffers);
        scf::YieldOp::create(b);
      });
}

void AttentionEmitter::emitCombination() {
  Value isSplit = b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sgt,
                                                splits, constant(1));
  auto branch = scf::IfOp::create(b, isSplit, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Values upper(batchSizes);
  upper.push_back(constant(heads));
  upper.push_back(blocks);
  Values lower(upper.size(), constant(0)), steps(upper.size(), constant(1));
  Value work =
      mul(mul(mul(tasks, splits), width), constant(2 * blockQueries * group));
  createParallelLoop(
      b, b.getLoc(), lower, upper, steps, work,
      [&](OpBuilder &, Location, ValueRange ivs) {
        Task task = makeTask(ivs);
        Value slot = mul(linearIndex(ivs), splits);
        Buffers buffers = makeBuffers();
        clear(task, buffers);
        auto loop = scf::ForOp::create(b, constant(0), splits, constant(1));
        {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToStart(loop.getBody());
          addPartial(task, buffers, add(slot, loop.getInductionVar()));
        }
        storeResult(task, buffers);
      });
}

void AttentionEmitter::emit() {
  if (group == 0 || getConstantIntValue(width) == int64_t(0))
    return; // The result has no elements.
  chooseBlocks();
  chooseSplits();
  if (causal)
    diagonal = op.getCausal() == "bottom_right" ? sub(keyCount, queryCount)
                                                : constant(0);
  Values upper(batchSizes);
  upper.append({constant(heads), blocks, splits});
  Values lower(upper.size(), constant(0)), steps(upper.size(), constant(1));
  Value work = mul(mul(queryCount, keyCount),
                   mul(add(depth, width), constant(2 * group * heads)));
  for (Value size : batchSizes)
    work = mul(work, size);
  createParallelLoop(
      b, b.getLoc(), lower, upper, steps, work,
      [&](OpBuilder &, Location, ValueRange ivs) {
        Task task = makeTask(ivs);
        Value split = ivs.back();
        task.firstKey = mul(split, splitKeys);
        task.endKey = minimum(keyCount, add(task.firstKey, splitKeys));
        if (causal) {
          // The last query of the block sees the most.
          Value end =
              add(add(task.firstQuery, materialize(task.queries)), diagonal);
          task.endKey = minimum(task.endKey, end);
        }
        if (maySplit)
          task.slot = add(mul(linearIndex(ivs), splits), split);
        emitTask(task);
      });
  if (maySplit)
    emitCombination();
}

namespace {
struct LowerAttention : buddy::impl::LowerAttentionBase<LowerAttention> {
  void runOnOperation() override {
    FailureOr<TargetInfo> target = findTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<AttentionIntoOp> ops;
    getOperation().walk([&](AttentionIntoOp op) {
      if (isa<MemRefType>(op.getInit().getType()))
        ops.push_back(op);
    });
    for (AttentionIntoOp op : ops) {
      OpBuilder builder(op);
      AttentionEmitter(builder, op, *target).emit();
      op.erase();
    }
  }
};
} // namespace
