//===- MergeRegions.cpp - independent parallel loops in one region --------===//
//
// Enters: parallel regions of one loop each, with `buddy.num_threads`, and the
// sequential ops between them, on buffers not yet placed. Leaves: one region
// for the loops that do not need each other's results.
//
// Statements (regions, branches with regions in them, sequential ops) form
// phases: each comes as early as those allow that it depends on. Two that touch
// the same buffer, one of them writing, keep their order; the loops of a phase
// share a region, in which no thread waits for another. Tasks stay those of the
// separate loops, whichever thread runs them: results do not depend on the
// number of threads.
//
// Phases do not share a region. What is sequential between two of them (a row's
// norm between two products) would take two barriers inside of a region, where
// the end of one region and the start of the next wait once each. Decoding with
// 4-bit weights on 2 threads of a 2-core Zen 4, tokens a second, for separate
// loops, a region for each phase, a region for a layer: 224, 263, 241 on a
// nearly idle machine; 53, 62, 38 with other programs on the cores.
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
struct Statement {
  SmallVector<Operation *> ops; ///< A region, a branch, or others.
  /// Of regions that can be merged; none if the ops stay as they are.
  SmallVector<omp::ParallelOp> loops;
  Accesses accesses;
  unsigned phase = 0;

  /// Bytes of the buffers of a thread.
  int64_t threadBytes() const;
  int64_t opCount() const;
};

/// An op that goes before the first statement, or a statement.
using Item = std::variant<Operation *, Statement>;

class BlockMerger {
public:
  explicit BlockMerger(Block &block) : block(block) {}
  void run();

private:
  bool addLoops(Operation *op);
  bool canHoist(Operation *op);
  /// Takes the first of the ops and those that belong to it as they are;
  /// returns how many.
  unsigned addOthers(ArrayRef<Operation *> ops);
  /// Merges what has been collected.
  void finish();

  Block &block;
  SmallVector<Item> items;
};
} // namespace

int64_t Statement::threadBytes() const {
  int64_t bytes = 0;
  for (omp::ParallelOp parallel : loops) {
    DataLayout layout = DataLayout::closest(parallel);
    for (Operation &op : parallel.getRegion().front())
      if (isBuffer(&op)) {
        auto type = cast<MemRefType>(op.getResult(0).getType());
        bytes += type.getNumElements() *
                 layout.getTypeSize(type.getElementType()).getKnownMinValue();
      }
  }
  return bytes;
}

int64_t Statement::opCount() const {
  int64_t count = 0;
  for (Operation *op : ops)
    op->walk([&](Operation *) { ++count; });
  return count;
}

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
  // What is only read, and not written by a statement before.
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
  statement.ops.push_back(op);
  statement.accesses = std::move(*accesses);
  items.emplace_back(std::move(statement));
  return true;
}

unsigned BlockMerger::addOthers(ArrayRef<Operation *> ops) {
  Statement statement;
  llvm::SmallPtrSet<Operation *, 8> own;
  for (Operation *op : ops) {
    std::optional<Accesses> accesses = Accesses::of(op);
    // What frees a buffer, or ends the call, stays behind all that precedes it.
    bool isBarred = op->walk([](Operation *inner) {
                        return isa<memref::DeallocOp, CheckOp>(inner)
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

//===-- The merged regions ------------------------------------------------===//

namespace {
/// Builds the regions of statements that follow each other.
class RegionBuilder : IndexBuilder {
public:
  explicit RegionBuilder(Operation *first) : IndexBuilder(first) {}
  void build(MutableArrayRef<Item> items);

private:
  void hoist(Operation *op) { op->moveBefore(&*b.getInsertionPoint()); }
  void hoistFrom(Block &block);
  Value workOf(Operation *op);
  /// One region for all, if there are several, at the insertion point.
  void buildRegion(ArrayRef<Statement *> statements);
  /// Replaces regions in a statement by their loops, in the region of `body`.
  void inlineLoops(Statement &statement, Block *body);
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
  auto branch = cast<scf::IfOp>(op);
  for (auto [region, work] : llvm::zip(branch->getRegions(), either))
    for (Operation &inner : region.getOps())
      if (isa<omp::ParallelOp, scf::IfOp>(inner))
        work = add(work, workOf(&inner));
  return b.createOrFold<arith::SelectOp>(branch.getCondition(), either[0],
                                         either[1]);
}

void RegionBuilder::inlineLoops(Statement &statement, Block *body) {
  statement.ops.front()->moveBefore(body, body->end());
  for (omp::ParallelOp parallel : statement.loops) {
    for (Operation &op : llvm::make_early_inc_range(
             parallel.getRegion().front().without_terminator())) {
      if (auto loop = dyn_cast<omp::WsloopOp>(op)) {
        loop.setNowait(true);
        loop->moveBefore(parallel);
      } else {
        // Buffers of the thread.
        op.moveBefore(body, body->begin());
      }
    }
    parallel->erase();
  }
}

void RegionBuilder::build(MutableArrayRef<Item> items) {
  // Each statement as early as those allow that it depends on.
  SmallVector<SmallVector<Statement *>> phases;
  SmallVector<Statement *> before;
  for (Item &item : items) {
    auto *statement = std::get_if<Statement>(&item);
    if (!statement) {
      hoist(std::get<Operation *>(item));
      continue;
    }
    for (Statement *other : before)
      if (other->accesses.conflictsWith(statement->accesses))
        statement->phase = std::max(statement->phase, other->phase + 1);
    before.push_back(statement);
    if (phases.size() <= statement->phase)
      phases.resize(statement->phase + 1);
    phases[statement->phase].push_back(statement);
  }
  Operation *end = before.back()->ops.back()->getNextNode();
  b.setInsertionPoint(end);
  for (ArrayRef<Statement *> phase : phases) {
    SmallVector<Statement *> group;
    int64_t bytes = 0, count = 0;
    for (Statement *statement : phase) {
      if (statement->loops.empty()) {
        for (Operation *op : statement->ops)
          op->moveBefore(end);
        continue;
      }
      bytes += statement->threadBytes();
      count += statement->opCount();
      if (bytes > kThreadBytes || count > kOps) {
        buildRegion(group);
        group.clear();
        bytes = statement->threadBytes();
        count = statement->opCount();
      }
      group.push_back(statement);
    }
    buildRegion(group);
  }
}

void RegionBuilder::buildRegion(ArrayRef<Statement *> statements) {
  if (statements.size() == 1)
    statements.front()->ops.front()->moveBefore(&*b.getInsertionPoint());
  if (statements.size() < 2)
    return;
  Value work = constant(0);
  for (Statement *statement : statements) {
    for (Region &region : statement->ops.front()->getRegions())
      for (Block &inner : region)
        hoistFrom(inner);
    work = add(work, workOf(statement->ops.front()));
  }
  omp::ParallelOperands operands;
  operands.numThreads = NumThreadsOp::create(b, b.getI32Type(), work);
  auto region = omp::ParallelOp::create(b, operands);
  OpBuilder inner(b.getContext());
  Block *body = inner.createBlock(&region.getRegion());
  for (Statement *statement : statements)
    inlineLoops(*statement, body);
  inner.setInsertionPointToEnd(body);
  omp::TerminatorOp::create(inner, b.getLoc());
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
    if (unsigned taken = addOthers(ArrayRef(ops).drop_front(i))) {
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
