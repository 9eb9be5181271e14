//===- LowerLoops.cpp - linalg on buffers to loops ------------------------===//
//
// Enters: linalg ops and copies on memrefs. Leaves: for each a loop nest, the
// parallel dimensions outside, reductions inside with their accumulators in
// registers.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERLOOPS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using buddy::createParallelLoop;

/// Elements of a one-dimensional loop that one parallel iteration takes.
static constexpr int64_t kChunk = 4096;

namespace {
/// Emits one linalg op.
class LoopEmitter {
public:
  LoopEmitter(OpBuilder &builder, linalg::LinalgOp op)
      : builder(builder), loc(op.getLoc()), op(op) {}

  void emit();

private:
  Value constant(int64_t v) {
    return arith::ConstantIndexOp::create(builder, loc, v);
  }
  /// Operand `map` applied to the current induction variables.
  SmallVector<Value> indices(AffineMap map);
  /// Value of an operand at the current point: an element, or the scalar.
  Value load(OpOperand &operand);
  /// The op's scalar body; returns the yielded values.
  SmallVector<Value> body(ValueRange accumulators);
  /// True if an output has an element for each step of a reduction, as where an
  /// element-wise op was fused into a reduction: it is written inside the loop.
  bool isWrittenInside(OpOperand &output);
  void emitParallel(ArrayRef<unsigned> dims);
  void emitReductions(ArrayRef<unsigned> dims);
  SmallVector<Value> emitReductionLoops(ArrayRef<unsigned> dims,
                                        ValueRange accumulators);

  OpBuilder &builder;
  Location loc;
  linalg::LinalgOp op;
  SmallVector<Value> sizes; ///< Trip count of each dimension.
  SmallVector<Value> ivs;   ///< Induction variable of each dimension.
  SmallVector<unsigned> reductions;
};
} // namespace

SmallVector<Value> LoopEmitter::indices(AffineMap map) {
  SmallVector<Value> result;
  for (AffineExpr expr : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      result.push_back(ivs[dim.getPosition()]);
    else
      result.push_back(affine::AffineApplyOp::create(
          builder, loc, AffineMap::get(map.getNumDims(), 0, expr), ivs));
  }
  return result;
}

Value LoopEmitter::load(OpOperand &operand) {
  if (!isa<MemRefType>(operand.get().getType()))
    return operand.get();
  return memref::LoadOp::create(builder, loc, operand.get(),
                                indices(op.getMatchingIndexingMap(&operand)));
}

SmallVector<Value> LoopEmitter::body(ValueRange accumulators) {
  Block &block = op->getRegion(0).front();
  IRMapping mapping;
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(input);
    if (!arg.use_empty())
      mapping.map(arg, load(*input));
  }
  for (auto [i, arg] : llvm::enumerate(op.getRegionOutputArgs()))
    if (!arg.use_empty())
      mapping.map(arg, accumulators[i]);
  for (Operation &inner : block.without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      mapping.map(index.getResult(), ivs[index.getDim()]);
      continue;
    }
    Operation *copy = builder.clone(inner, mapping);
    // The order of a reduction is not defined, so the vectorizer may choose.
    bool reduces =
        !reductions.empty() && llvm::any_of(inner.getOperands(), [&](Value v) {
          return llvm::is_contained(op.getRegionOutputArgs(), v);
        });
    if (reduces && isa<arith::AddFOp, arith::MulFOp>(copy))
      copy->setAttr("fastmath",
                    arith::FastMathFlagsAttr::get(
                        builder.getContext(), arith::FastMathFlags::reassoc));
  }
  SmallVector<Value> yielded;
  for (Value v : block.getTerminator()->getOperands())
    yielded.push_back(mapping.lookupOrDefault(v));
  return yielded;
}

SmallVector<Value> LoopEmitter::emitReductionLoops(ArrayRef<unsigned> dims,
                                                   ValueRange accumulators) {
  if (dims.empty()) {
    SmallVector<Value> all, carried;
    for (OpOperand &output : op.getDpsInitsMutable()) {
      if (!isWrittenInside(output)) {
        all.push_back(accumulators.front());
        accumulators = accumulators.drop_front();
      } else {
        all.push_back(op.getMatchingBlockArgument(&output).use_empty()
                          ? Value()
                          : load(output));
      }
    }
    for (auto [output, value] : llvm::zip(op.getDpsInitsMutable(), body(all))) {
      if (isWrittenInside(output))
        memref::StoreOp::create(builder, loc, value, output.get(),
                                indices(op.getMatchingIndexingMap(&output)));
      else
        carried.push_back(value);
    }
    return carried;
  }
  auto loop = scf::ForOp::create(builder, loc, constant(0), sizes[dims.front()],
                                 constant(1), accumulators);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  ivs[dims.front()] = loop.getInductionVar();
  SmallVector<Value> results =
      emitReductionLoops(dims.drop_front(), loop.getRegionIterArgs());
  scf::YieldOp::create(builder, loc, results);
  return SmallVector<Value>(loop.getResults());
}

bool LoopEmitter::isWrittenInside(OpOperand &output) {
  AffineMap map = op.getMatchingIndexingMap(&output);
  return llvm::any_of(reductions,
                      [&](unsigned dim) { return map.isFunctionOfDim(dim); });
}

void LoopEmitter::emitReductions(ArrayRef<unsigned> dims) {
  SmallVector<Value> accumulators;
  SmallVector<OpOperand *> outputs;
  for (OpOperand &output : op.getDpsInitsMutable()) {
    if (isWrittenInside(output))
      continue;
    outputs.push_back(&output);
    BlockArgument arg = op.getMatchingBlockArgument(&output);
    // Without reductions an unused output element is not read.
    accumulators.push_back(dims.empty() && arg.use_empty() ? Value()
                                                           : load(output));
  }
  SmallVector<Value> results = emitReductionLoops(dims, accumulators);
  for (auto [output, value] : llvm::zip(outputs, results))
    memref::StoreOp::create(builder, loc, value, output->get(),
                            indices(op.getMatchingIndexingMap(output)));
}

void LoopEmitter::emitParallel(ArrayRef<unsigned> dims) {
  if (dims.empty())
    return emitReductions(reductions);
  auto loop = scf::ForOp::create(builder, loc, constant(0), sizes[dims.front()],
                                 constant(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  ivs[dims.front()] = loop.getInductionVar();
  emitParallel(dims.drop_front());
}

void LoopEmitter::emit() {
  SmallVector<Range> ranges = op.createLoopRanges(builder, loc);
  SmallVector<unsigned> parallel;
  for (auto [dim, type] : llvm::enumerate(op.getIteratorTypesArray()))
    (type == utils::IteratorType::parallel ? parallel : reductions)
        .push_back(dim);
  ivs.resize(ranges.size());
  Value work = constant(std::max<size_t>(
      1, llvm::range_size(op->getRegion(0).front().without_terminator())));
  for (Range &range : ranges) {
    sizes.push_back(getValueOrCreateConstantIndexOp(builder, loc, range.size));
    work = arith::MulIOp::create(builder, loc, work, sizes.back());
  }
  if (parallel.empty())
    return emitReductions(reductions);

  // The last parallel dimension is the contiguous one as a rule: it stays
  // inside for the vectorizer, unless rows are reduced inside it.
  ArrayRef<unsigned> dims = parallel;
  if (dims.size() == 1 && reductions.empty()) {
    unsigned dim = dims.front();
    createParallelLoop(
        builder, loc, constant(0), sizes[dim], constant(kChunk), work,
        [&](OpBuilder &, Location, ValueRange starts) {
          Value left =
              arith::SubIOp::create(builder, loc, sizes[dim], starts[0]);
          Value count =
              arith::MinSIOp::create(builder, loc, left, constant(kChunk));
          Value end = arith::AddIOp::create(builder, loc, starts[0], count);
          auto loop =
              scf::ForOp::create(builder, loc, starts[0], end, constant(1));
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPointToStart(loop.getBody());
          ivs[dim] = loop.getInductionVar();
          emitReductions(reductions);
        });
    return;
  }
  size_t outer = reductions.empty() ? dims.size() - 1 : dims.size();
  SmallVector<Value> lower(outer, constant(0)), steps(outer, constant(1)),
      upper;
  for (unsigned dim : dims.take_front(outer))
    upper.push_back(sizes[dim]);
  createParallelLoop(builder, loc, lower, upper, steps, work,
                     [&](OpBuilder &, Location, ValueRange outerIvs) {
                       for (auto [dim, iv] : llvm::zip(dims, outerIvs))
                         ivs[dim] = iv;
                       emitParallel(dims.drop_front(outer));
                     });
}

namespace {
struct LowerLoops : buddy::impl::LowerLoopsBase<LowerLoops> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    // Copies become loops too: upstream's lowering of a strided copy calls a
    // runtime library, and a large copy should be parallel.
    getOperation().walk([&](memref::CopyOp copy) {
      rewriter.setInsertionPoint(copy);
      auto type = cast<MemRefType>(copy.getTarget().getType());
      AffineMap map = rewriter.getMultiDimIdentityMap(
          static_cast<unsigned>(type.getRank()));
      SmallVector<utils::IteratorType> iterators(type.getRank(),
                                                 utils::IteratorType::parallel);
      linalg::GenericOp::create(
          rewriter, copy.getLoc(), copy.getSource(), copy.getTarget(),
          ArrayRef{map, map}, iterators,
          [](OpBuilder &b, Location loc, ValueRange args) {
            linalg::YieldOp::create(b, loc, args.front());
          });
      rewriter.eraseOp(copy);
    });
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) {
      if (op.hasPureBufferSemantics())
        ops.push_back(op);
    });
    for (linalg::LinalgOp op : ops) {
      rewriter.setInsertionPoint(op);
      LoopEmitter(rewriter, op).emit();
      rewriter.eraseOp(op);
    }
  }
};
} // namespace
