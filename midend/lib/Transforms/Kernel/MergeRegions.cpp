//===- MergeRegions.cpp - neighbouring parallel loops in one region -------===//
//
// Enters: parallel regions of one loop each, with `buddy.num_threads`, and the
// sequential ops between them, on buffers not yet placed. Leaves: one region
// for as many of them as can be, in phases with a barrier between.
//
// What holds inside of a merged region:
// - Two statements that touch the same buffer, one of them writing, are in
//   different phases, in the order they had; the others may share a phase.
// - A phase that is not worth more than one thread is run by the region's first
//   thread alone. Between two such phases no barrier is needed; everywhere else
//   there is one. So a buffer's content never passes from one phase to another
//   without a barrier or program order, whichever buffers share memory:
//   buddy-plan-memory relies on it.
// - Tasks are those of the separate loops, whichever thread runs them: results
//   do not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#include "../IndexBuilder.h"
#include "Accesses.h"
#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_MERGEREGIONS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// Buffers of a thread in one region, in bytes. They are on its stack, and a
/// worker's has 4 MB by default (libomp).
static constexpr int64_t kThreadBytes = 1 << 20;
/// Ops of one region, which becomes one function of about a dozen bytes of code
/// an op. One more region costs a microsecond or two; of a larger function
/// nothing is gained, and LLVM's time for it grows faster than its size.
static constexpr int64_t kOps = 4096;

//===-- What can be part of a merged region -------------------------------===//

static bool isBuffer(Operation *op) {
  return isa<memref::AllocOp, memref::AllocaOp>(op);
}

/// The work that a region's number of threads follows from, or null.
static Value getWork(omp::ParallelOp parallel) {
  Value threads = parallel.getNumThreads();
  auto op = threads ? threads.getDefiningOp<NumThreadsOp>() : NumThreadsOp();
  return op ? op.getWork() : Value();
}

/// The loop of a region as createParallelLoop makes it, or null: nothing else
/// in the region but buffers of the thread and arithmetic, which can all be
/// moved out of it.
static omp::WsloopOp getOnlyLoop(omp::ParallelOp parallel) {
  if (parallel->getNumOperands() != 1 || !getWork(parallel) ||
      !parallel.getRegion().hasOneBlock())
    return {};
  omp::WsloopOp loop;
  Block &body = parallel.getRegion().front();
  for (Operation &op : body.without_terminator()) {
    if (auto found = dyn_cast<omp::WsloopOp>(op)) {
      if (loop || found->getNumOperands() != 0 ||
          !isa<omp::LoopNestOp>(found.getWrappedLoop()))
        return {};
      loop = found;
    } else if (isBuffer(&op)) {
      // Of constant size, so that it can be allocated whether the loop is run
      // or not.
      if (op.getNumOperands() != 0)
        return {};
    } else if (!isPure(&op) || llvm::any_of(op.getOperands(), [&](Value v) {
                 Operation *def = v.getDefiningOp();
                 return def && def->getBlock() == &body && isBuffer(def);
               })) {
      return {};
    }
  }
  return loop;
}

/// Bytes of the buffers of a thread in a region.
static int64_t threadBytes(omp::ParallelOp parallel) {
  DataLayout layout = DataLayout::closest(parallel);
  int64_t bytes = 0;
  for (Operation &op : parallel.getRegion().front())
    if (isBuffer(&op)) {
      auto type = cast<MemRefType>(op.getResult(0).getType());
      bytes += type.getNumElements() *
               layout.getTypeSize(type.getElementType()).getKnownMinValue();
    }
  return bytes;
}

/// Collects the parallel regions of a branch, nested branches included; false
/// if there is anything in it but these and arithmetic, or if one needs what
/// another makes.
static bool collectLoops(scf::IfOp branch,
                         SmallVectorImpl<omp::ParallelOp> &loops) {
  if (branch->getNumResults() != 0)
    return false;
  for (Region &region : branch->getRegions()) {
    SmallVector<Accesses> before;
    for (Operation &op : region.getOps()) {
      bool isLoop = false;
      if (auto parallel = dyn_cast<omp::ParallelOp>(op)) {
        if (!getOnlyLoop(parallel))
          return false;
        loops.push_back(parallel);
        isLoop = true;
      } else if (auto inner = dyn_cast<scf::IfOp>(op);
                 inner && inner->getNumResults() == 0) {
        if (!collectLoops(inner, loops))
          return false;
        isLoop = true;
      } else if (!isPure(&op)) {
        return false;
      }
      if (!isLoop)
        continue;
      std::optional<Accesses> accesses = Accesses::of(&op);
      if (!accesses || llvm::any_of(before, [&](const Accesses &other) {
            return other.conflictsWith(*accesses);
          }))
        return false;
      before.push_back(std::move(*accesses));
    }
  }
  return !loops.empty();
}

namespace {
/// A part of a merged region that has no barrier inside.
struct Statement {
  SmallVector<Operation *> ops; ///< A region, a branch, or sequential ops.
  SmallVector<omp::ParallelOp> loops; ///< None if the ops are sequential.
  Accesses accesses;
  unsigned phase = 0;
};

/// An op that goes before the region, or a statement in it.
using Item = std::variant<Operation *, Statement>;

class BlockMerger {
public:
  explicit BlockMerger(Block &block) : block(block) {}
  void run();

private:
  bool addLoops(Operation *op);
  bool canHoist(Operation *op);
  /// Takes the sequential ops from `first` on; returns how many.
  unsigned addSequential(ArrayRef<Operation *> ops);
  /// Merges what has been collected.
  void finish();

  Block &block;
  SmallVector<Item> items;
  /// Of the statements collected: bytes of a thread's buffers, ops.
  int64_t bytes = 0, opCount = 0;
};
} // namespace

/// True if `op`, or one nested in it, uses a result of `ops`.
static bool usesAny(Operation *op,
                    const llvm::SmallPtrSetImpl<Operation *> &ops) {
  return op
      ->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *def = operand.getDefiningOp();
              def && ops.contains(def))
            return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

bool BlockMerger::canHoist(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return false;
  if (isMemoryEffectFree(op) || isBuffer(op))
    return true;
  // What is only read, and not written in the region before.
  std::optional<Accesses> accesses = Accesses::of(op);
  return accesses && accesses->writes.empty() &&
         llvm::none_of(items, [&](const Item &item) {
           auto *statement = std::get_if<Statement>(&item);
           return statement && statement->accesses.conflictsWith(*accesses);
         });
}

bool BlockMerger::addLoops(Operation *op) {
  Statement statement;
  if (auto parallel = dyn_cast<omp::ParallelOp>(op)) {
    if (!getOnlyLoop(parallel))
      return false;
    statement.loops.push_back(parallel);
  } else {
    auto branch = dyn_cast<scf::IfOp>(op);
    if (!branch || !collectLoops(branch, statement.loops))
      return false;
  }
  std::optional<Accesses> accesses = Accesses::of(op);
  if (!accesses)
    return false;
  int64_t moreBytes = 0, moreOps = 0;
  for (omp::ParallelOp loop : statement.loops)
    moreBytes += threadBytes(loop);
  op->walk([&](Operation *) { ++moreOps; });
  if (bytes + moreBytes > kThreadBytes || opCount + moreOps > kOps)
    finish();
  bytes += moreBytes;
  opCount += moreOps;
  statement.ops.push_back(op);
  statement.accesses = std::move(*accesses);
  items.emplace_back(std::move(statement));
  return true;
}

unsigned BlockMerger::addSequential(ArrayRef<Operation *> ops) {
  Statement statement;
  llvm::SmallPtrSet<Operation *, 8> own;
  for (Operation *op : ops) {
    std::optional<Accesses> accesses = Accesses::of(op);
    // Regions do not nest, a thread's buffers are not in the workspace, and
    // after a check there may be no call any more.
    bool isBarred = op->walk([](Operation *inner) {
                        return isa<omp::ParallelOp, memref::AllocOp,
                                   memref::DeallocOp, CheckOp>(inner)
                                   ? WalkResult::interrupt()
                                   : WalkResult::advance();
                      }).wasInterrupted();
    if (!accesses || isBarred || op->hasTrait<OpTrait::IsTerminator>())
      break;
    if (!own.empty() && !usesAny(op, own) && canHoist(op))
      break;
    statement.ops.push_back(op);
    own.insert(op);
    statement.accesses.add(*accesses);
  }
  // What the ops compute must not be needed anywhere else.
  for (Operation *op : statement.ops)
    for (Operation *user : op->getUsers())
      if (!own.contains(block.findAncestorOpInBlock(*user)))
        return 0;
  if (statement.ops.empty())
    return 0;
  unsigned count = statement.ops.size();
  items.emplace_back(std::move(statement));
  return count;
}

//===-- The merged region -------------------------------------------------===//

namespace {
/// Builds one region of statements.
class RegionBuilder : IndexBuilder {
public:
  explicit RegionBuilder(Operation *first) : IndexBuilder(first) {}
  void build(MutableArrayRef<Item> items);

private:
  struct Phase {
    SmallVector<Statement *> statements;
    Value isParallel; ///< Worth more than one thread.
  };

  void hoist(Operation *op) { op->moveBefore(&*b.getInsertionPoint()); }
  void hoistFrom(Block &block);
  Value workOf(Operation *op);
  void choosePhases(MutableArrayRef<Item> items);
  /// Iterations of a loop nest.
  Value tripCount(omp::LoopNestOp nest);
  /// The chunk by which the threads, or the first one, share a loop.
  Value chunkOf(omp::WsloopOp loop, Value isParallel);
  /// Replaces a region by its loop.
  void inlineLoop(omp::ParallelOp parallel, Value chunk);
  void emitSequential(Statement &statement);

  SmallVector<Phase> phases;
  Value threads;
  Block *body = nullptr;
};
} // namespace

void RegionBuilder::hoistFrom(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (auto parallel = dyn_cast<omp::ParallelOp>(op)) {
      hoistFrom(parallel.getRegion().front());
    } else if (isa<scf::IfOp>(op) && !isPure(&op)) {
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          hoistFrom(inner);
    } else if (isPure(&op)) {
      hoist(&op);
    }
  }
}

Value RegionBuilder::workOf(Operation *op) {
  if (auto parallel = dyn_cast<omp::ParallelOp>(op))
    return getWork(parallel);
  Value either[] = {constant(0), constant(0)};
  auto branch = dyn_cast<scf::IfOp>(op);
  if (!branch)
    return either[0];
  for (auto [region, work] : llvm::zip(branch->getRegions(), either))
    for (Operation &inner : region.getOps())
      if (!isPure(&inner))
        work = add(work, workOf(&inner));
  return b.createOrFold<arith::SelectOp>(branch.getCondition(), either[0],
                                         either[1]);
}

void RegionBuilder::choosePhases(MutableArrayRef<Item> items) {
  SmallVector<Statement *> before;
  for (Item &item : items) {
    auto *statement = std::get_if<Statement>(&item);
    if (!statement)
      continue;
    for (Statement *other : before)
      if (other->accesses.conflictsWith(statement->accesses))
        statement->phase = std::max(statement->phase, other->phase + 1);
    before.push_back(statement);
    if (phases.size() <= statement->phase)
      phases.resize(statement->phase + 1);
    phases[statement->phase].statements.push_back(statement);
  }
}

Value RegionBuilder::tripCount(omp::LoopNestOp nest) {
  Value count = constant(1);
  for (auto [lower, upper, step] :
       llvm::zip(nest.getLoopLowerBounds(), nest.getLoopUpperBounds(),
                 nest.getLoopSteps())) {
    Value distance = maximum(sub(upper, lower), constant(0));
    count = mul(count, divide(add(distance, sub(step, constant(1))), step));
  }
  return count;
}

Value RegionBuilder::chunkOf(omp::WsloopOp loop, Value isParallel) {
  Value trip = tripCount(cast<omp::LoopNestOp>(loop.getWrappedLoop()));
  Value share = divide(add(trip, sub(threads, constant(1))), threads);
  return maximum(b.createOrFold<arith::SelectOp>(isParallel, share, trip),
                 constant(1));
}

/// Iterations of a loop go to the threads in turn, so many at a time.
static void setChunk(omp::WsloopOp loop, Value chunk) {
  loop.setNowait(true);
  loop.setScheduleKind(omp::ClauseScheduleKind::Static);
  loop.getScheduleChunkMutable().assign(chunk);
}

void RegionBuilder::inlineLoop(omp::ParallelOp parallel, Value chunk) {
  for (Operation &op : llvm::make_early_inc_range(
           parallel.getRegion().front().without_terminator())) {
    if (auto loop = dyn_cast<omp::WsloopOp>(op)) {
      setChunk(loop, chunk);
      loop->moveBefore(parallel);
    } else {
      // Buffers of the thread.
      op.moveBefore(body, body->begin());
    }
  }
  parallel->erase();
}

void RegionBuilder::emitSequential(Statement &statement) {
  // A loop of one iteration, which is the first thread's.
  Location loc = statement.ops.front()->getLoc();
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  auto loop = omp::WsloopOp::create(builder, loc, omp::WsloopOperands());
  builder.createBlock(&loop.getRegion());
  omp::LoopNestOperands operands;
  operands.loopLowerBounds = {constant(0)};
  operands.loopUpperBounds = operands.loopSteps = {constant(1)};
  auto nest = omp::LoopNestOp::create(builder, loc, operands);
  setChunk(loop, constant(1));
  builder.createBlock(&nest.getRegion(), {}, builder.getIndexType(), loc);
  auto scope = memref::AllocaScopeOp::create(builder, loc, TypeRange{});
  omp::YieldOp::create(builder, loc);
  builder.createBlock(&scope.getBodyRegion());
  Operation *end = memref::AllocaScopeReturnOp::create(builder, loc);
  for (Operation *op : statement.ops)
    op->moveBefore(end);
}

void RegionBuilder::build(MutableArrayRef<Item> items) {
  Location loc = b.getLoc();
  for (Item &item : items) {
    if (auto *op = std::get_if<Operation *>(&item)) {
      hoist(*op);
      continue;
    }
    auto &statement = std::get<Statement>(item);
    if (statement.loops.empty())
      continue;
    Operation *op = statement.ops.front();
    for (Region &region : op->getRegions())
      for (Block &inner : region)
        hoistFrom(inner);
  }
  choosePhases(items);

  // A phase's loops are worth several threads together.
  Value most = constant(0);
  Value one = arith::ConstantIntOp::create(b, b.getI32Type(), 1);
  for (Phase &phase : phases) {
    Value work = constant(0);
    for (Statement *statement : phase.statements)
      work = add(work, workOf(statement->ops.front()));
    most = maximum(most, work);
    Value count = NumThreadsOp::create(b, b.getI32Type(), work);
    phase.isParallel =
        b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sgt, count, one);
  }
  Value count = NumThreadsOp::create(b, b.getI32Type(), most);
  threads = arith::IndexCastUIOp::create(b, b.getIndexType(), count);
  DenseMap<Operation *, Value> chunks;
  for (Phase &phase : phases)
    for (Statement *statement : phase.statements)
      for (omp::ParallelOp loop : statement->loops)
        chunks[loop] = chunkOf(getOnlyLoop(loop), phase.isParallel);
  SmallVector<Value> barriers{Value()};
  for (unsigned i = 1; i < phases.size(); ++i)
    barriers.push_back(b.createOrFold<arith::OrIOp>(phases[i - 1].isParallel,
                                                    phases[i].isParallel));

  omp::ParallelOperands operands;
  operands.numThreads = count;
  auto region = omp::ParallelOp::create(b, operands);
  b.setInsertionPoint(region);
  OpBuilder inner(b.getContext());
  body = inner.createBlock(&region.getRegion());
  for (auto [phase, barrier] : llvm::zip(phases, barriers)) {
    if (barrier) {
      inner.setInsertionPointToEnd(body);
      createBarrier(inner, loc, barrier);
    }
    for (Statement *statement : phase.statements) {
      if (statement->loops.empty()) {
        emitSequential(*statement);
        continue;
      }
      statement->ops.front()->moveBefore(body, body->end());
      for (omp::ParallelOp loop : statement->loops)
        inlineLoop(loop, chunks[loop]);
    }
  }
  inner.setInsertionPointToEnd(body);
  omp::TerminatorOp::create(inner, loc);
}

//===-- The pass ----------------------------------------------------------===//

void BlockMerger::finish() {
  // From the first loop to the last.
  auto hasLoops = [](const Item &item) {
    auto *statement = std::get_if<Statement>(&item);
    return statement && !statement->loops.empty();
  };
  unsigned count = llvm::count_if(items, hasLoops);
  if (count > 1) {
    while (!hasLoops(items.back()))
      items.pop_back();
    auto &first = std::get<Statement>(items.front());
    RegionBuilder(first.ops.front()).build(items);
  }
  items.clear();
  bytes = opCount = 0;
}

void BlockMerger::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (unsigned i = 0; i < ops.size();) {
    Operation *op = ops[i];
    if (addLoops(op)) {
      ++i;
      continue;
    }
    if (items.empty()) {
      ++i;
      continue;
    }
    if (canHoist(op)) {
      items.emplace_back(op);
      ++i;
      continue;
    }
    if (unsigned taken = addSequential(ArrayRef(ops).drop_front(i))) {
      i += taken;
      continue;
    }
    finish();
    ++i;
  }
  finish();
}

namespace {
struct MergeRegions : buddy::impl::MergeRegionsBase<MergeRegions> {
  void runOnOperation() override {
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) {
      Operation *parent = block->getParentOp();
      if (!isa<omp::ParallelOp>(parent) &&
          !parent->getParentOfType<omp::ParallelOp>())
        blocks.push_back(block);
    });
    // Outer blocks first: what they take along is merged.
    for (Block *block : llvm::reverse(blocks))
      if (!block->getParentOp()->getParentOfType<omp::ParallelOp>())
        BlockMerger(*block).run();
  }
};
} // namespace
