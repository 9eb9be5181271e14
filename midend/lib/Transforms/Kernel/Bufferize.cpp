//===- Bufferize.cpp - one-shot bufferization in place --------------------===//
//
// Enters: functions on tensors whose arguments are memrefs, read by `to_tensor`
// and written by `materialize_in_destination` (docs/architecture.md, 2).
// Leaves: the same on memrefs, each result computed where it belongs if that
// destroys nothing that is still read.
//
// Upstream's analysis sees tensors only. A materialization into a memref and
// the `to_tensor` of the same memref are unrelated to it, and one into a tensor
// is forced into place, whatever is read after. So each destination becomes one
// tensor here, and a result is stored in it by a plain `linalg.copy`, which the
// analysis treats like any other op: in place if it may, else in a buffer of
// its own that is copied at the function's end.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"

namespace buddy {
#define GEN_PASS_DEF_BUFFERIZE
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace mlir::bufferization;

/// Dynamic strides and offset, unit last stride: what a slice of rows has.
static BufferLikeType rowMajorArgument(TensorLikeType type, Attribute space,
                                       func::FuncOp,
                                       const BufferizationOptions &) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> strides(tensor.getRank(), ShapedType::kDynamic);
  int64_t offset = ShapedType::kDynamic;
  if (strides.empty())
    offset = 0;
  else
    strides.back() = 1;
  MemRefLayoutAttrInterface layout;
  if (!strides.empty())
    layout = StridedLayoutAttr::get(tensor.getContext(), offset, strides);
  return cast<BufferLikeType>(MemRefType::get(
      tensor.getShape(), tensor.getElementType(), layout, space));
}

/// True for an op that only makes a tensor of equal elements.
static bool isFill(Operation *op) {
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  return linalgOp && linalgOp.hasPureTensorSemantics() &&
         op->getNumResults() == 1 && op->getRegion(0).hasOneBlock() &&
         linalgOp.getNumReductionLoops() == 0 &&
         llvm::none_of(linalgOp.getDpsInputs(),
                       [](Value v) { return isa<ShapedType>(v.getType()); });
}

/// Gives each use of an empty or filled tensor one of its own. CSE makes them
/// one, and a shared one that is placed in the destination of one result would
/// be computed in by another before it is read.
static void unshareDestinations(ModuleOp module, RewriterBase &rewriter) {
  SmallVector<Operation *> shared;
  module.walk([&](Operation *op) {
    if (isa<tensor::EmptyOp>(op) || isFill(op))
      shared.push_back(op);
  });
  // Users before producers, so that a copied fill gets its own empty tensor.
  for (Operation *op : llvm::reverse(shared)) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses())
      uses.push_back(&use);
    for (OpOperand *use : llvm::drop_begin(uses)) {
      rewriter.setInsertionPoint(op);
      Operation *copy = rewriter.clone(*op);
      use->set(copy->getResult(0));
      if (!isFill(op))
        continue;
      OpOperand *init = cast<linalg::LinalgOp>(copy).getDpsInitOperand(0);
      rewriter.setInsertionPoint(copy);
      if (auto empty = init->get().getDefiningOp<tensor::EmptyOp>())
        init->set(rewriter.clone(*empty)->getResult(0));
    }
  }
}

namespace {
/// What a function does with the memory of one of its arguments.
struct ArgumentMemory {
  ToTensorOp tensor;
  MaterializeInDestinationOp store;
};
} // namespace

/// Returns what is done with an argument's memory, or nothing if it is used in
/// other ways than to be read as one tensor, then written once.
static std::optional<ArgumentMemory> findMemory(BlockArgument arg) {
  ArgumentMemory memory;
  for (Operation *user : arg.getUsers()) {
    if (isa<memref::DimOp>(user))
      continue;
    auto tensor = dyn_cast<ToTensorOp>(user);
    auto store = dyn_cast<MaterializeInDestinationOp>(user);
    if (user->getBlock() != arg.getOwner())
      return std::nullopt;
    if (tensor && tensor.getRestrict() && !memory.tensor)
      memory.tensor = tensor;
    else if (store && store.getRestrict() && !memory.store)
      memory.store = store;
    else
      return std::nullopt;
  }
  if (memory.tensor && memory.store &&
      (!memory.tensor.getWritable() ||
       memory.store->isBeforeInBlock(memory.tensor)))
    return std::nullopt;
  return memory;
}

/// The value that `v` is a view of.
static Value viewedValue(Value v) {
  while (Operation *op = v.getDefiningOp()) {
    if (!isa<tensor::ExtractSliceOp, tensor::CollapseShapeOp,
             tensor::ExpandShapeOp, tensor::CastOp>(op))
      break;
    v = op->getOperand(0);
  }
  return v;
}

/// Splits a materialization in two: the store, which the analysis may or may
/// not let happen in place, and the materialization of what it made.
static linalg::CopyOp splitStore(MaterializeInDestinationOp op, Value tensor,
                                 RewriterBase &rewriter) {
  rewriter.setInsertionPoint(op);
  Value source = op.getSource();
  if (source.getType() != tensor.getType())
    source =
        tensor::CastOp::create(rewriter, op.getLoc(), tensor.getType(), source);
  auto store = linalg::CopyOp::create(rewriter, op.getLoc(), source, tensor);
  op.getSourceMutable().assign(store.getResult(0));
  Operation *end = op->getBlock()->getTerminator();
  if (llvm::all_of(op->getUsers(),
                   [&](Operation *user) { return user == end; }))
    op->moveBefore(end);
  return store;
}

/// Rewrites what is written to arguments, with %t the one tensor of %arg:
///
///   materialize_in_destination %v in restrict writable %arg
///
/// becomes
///
///   %u = linalg.copy ins(%v) outs(%t)
///   materialize_in_destination %u in writable %arg   // at the function's end
///
/// If %u is %t in place, the second op copies %arg to itself and goes away; it
/// says that %u is what the memory holds at the end. Arguments used in any
/// other way are left as they are.
static SmallVector<linalg::CopyOp> tieDestinations(func::FuncOp function,
                                                   RewriterBase &rewriter) {
  SmallVector<linalg::CopyOp> stores;
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return stores;
  Block &body = function.getBody().front();
  for (BlockArgument arg : body.getArguments()) {
    if (!isa<MemRefType>(arg.getType()))
      continue;
    std::optional<ArgumentMemory> memory = findMemory(arg);
    if (!memory || !memory->store)
      continue;
    if (memory->tensor) {
      memory->tensor->moveBefore(&body, body.begin());
      continue;
    }
    // An output. If it gets what an argument holds, it gets it at once, so that
    // the argument can be updated in place after.
    Operation *source =
        viewedValue(memory->store.getSource()).getDefiningOp<ToTensorOp>();
    if (source && source->getBlock() == &body)
      memory->store->moveAfter(memory->store.getSource().getDefiningOp());
    rewriter.setInsertionPointToStart(&body);
    auto type = cast<MemRefType>(arg.getType());
    ToTensorOp::create(
        rewriter, memory->store.getLoc(),
        RankedTensorType::get(type.getShape(), type.getElementType()), arg,
        /*restrict=*/true, /*writable=*/true);
  }
  auto all = llvm::to_vector(body.getOps<MaterializeInDestinationOp>());
  for (MaterializeInDestinationOp op : all) {
    auto arg = dyn_cast<BlockArgument>(op.getDest());
    if (!arg || arg.getOwner() != &body)
      continue;
    Value tensor = arg;
    if (isa<BaseMemRefType>(arg.getType())) {
      std::optional<ArgumentMemory> memory = findMemory(arg);
      if (!memory || !memory->tensor)
        continue;
      tensor = memory->tensor.getResult();
      op.setRestrict(false);
    }
    stores.push_back(splitStore(op, tensor, rewriter));
  }
  return stores;
}

/// The memory of `destination` in the shape that the source of a reshape has;
/// null if it cannot be seen so. `sizes` are that shape's.
static Value reshapeDestination(Operation *reshape, Value destination,
                                ArrayRef<OpFoldResult> sizes,
                                RewriterBase &rewriter) {
  auto type = cast<RankedTensorType>(reshape->getOperand(0).getType());
  Location loc = reshape->getLoc();
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(reshape))
    return tensor::ExpandShapeOp::create(rewriter, loc, type, destination,
                                         collapse.getReassociationIndices(),
                                         sizes);
  auto expand = cast<tensor::ExpandShapeOp>(reshape);
  return tensor::CollapseShapeOp::create(rewriter, loc, type, destination,
                                         expand.getReassociationIndices());
}

/// True if the dimensions of the destination's memory are adjacent, so that it
/// can be seen in another shape.
static bool isContiguous(Value destination) {
  auto tensor = destination.getDefiningOp<ToTensorOp>();
  auto type =
      tensor ? dyn_cast<MemRefType>(tensor.getBuffer().getType()) : nullptr;
  return type && type.getLayout().isIdentity();
}

/// Puts what is stored in a destination there from where it would be copied on,
/// if the store's source is an argument or a value needed later that is updated
/// in a copy: the copy is made in the destination.
static void copyToDestination(linalg::CopyOp store, OneShotAnalysisState &state,
                              RewriterBase &rewriter) {
  Value destination = store.getDpsInitOperand(0)->get();
  Value v = store.getDpsInputOperand(0)->get();
  while (isa<OpResult>(v) && v.getParentBlock() == store->getBlock()) {
    AliasingOpOperandList aliases = state.getAliasingOpOperands(v);
    if (aliases.getNumAliases() != 1)
      return;
    AliasingOpOperand alias = *aliases.begin();
    OpOperand *operand = alias.opOperand;
    if (alias.relation != BufferRelation::Equivalent || !alias.isDefinite ||
        operand->get().getType() != destination.getType())
      return;
    if (state.isInPlace(*operand)) {
      v = operand->get();
      continue;
    }
    if (!state.bufferizesToMemoryRead(*operand))
      return;
    rewriter.setInsertionPoint(operand->getOwner());
    auto copy = linalg::CopyOp::create(rewriter, store.getLoc(), operand->get(),
                                       destination);
    operand->set(copy->getResult(0));
    state.resetCache();
    return;
  }
}

/// Computes what is stored in a destination there, from the empty tensor that
/// the computation started with on, where upstream's elimination does the same
/// for insertions; reshapes in between make the destination another shape. The
/// analysis of the result decides whether that may be.
static void computeInDestinations(ArrayRef<linalg::CopyOp> stores,
                                  OneShotAnalysisState &state,
                                  RewriterBase &rewriter) {
  TraversalConfig config;
  config.followEquivalentOnly = true;
  config.followInPlaceOnly = true;
  config.followSameTypeOrCastsOnly = true;
  config.alwaysIncludeLeaves = false;
  for (linalg::CopyOp store : stores) {
    OpOperand *source = store.getDpsInputOperand(0);
    Value destination = store.getDpsInitOperand(0)->get();
    // Reshapes from the store upwards.
    SmallVector<Operation *> reshapes;
    while (source) {
      auto isReshape = [](Value v) {
        return isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(
            v.getDefiningOp());
      };
      SetVector<Value> starts = state.findValueInReverseUseDefChain(
          source,
          [&](Value v) {
            return isReshape(v) || bool(v.getDefiningOp<tensor::EmptyOp>());
          },
          config);
      source = nullptr;
      for (Value start : starts) {
        auto empty = start.getDefiningOp<tensor::EmptyOp>();
        if (!empty) {
          if (starts.size() == 1 && isContiguous(destination)) {
            reshapes.push_back(start.getDefiningOp());
            source = &reshapes.back()->getOpOperand(0);
          }
          continue;
        }
        rewriter.setInsertionPoint(empty);
        Value replacement = destination;
        // Of several reshapes only the last one's sizes are known here.
        if (reshapes.size() > 1)
          continue;
        if (!reshapes.empty())
          replacement = reshapeDestination(reshapes.front(), replacement,
                                           empty.getMixedSizes(), rewriter);
        if (start.getType() != replacement.getType())
          replacement = tensor::CastOp::create(rewriter, empty.getLoc(),
                                               start.getType(), replacement);
        rewriter.replaceOp(empty, replacement);
        state.resetCache();
      }
    }
  }
  for (linalg::CopyOp store : stores)
    copyToDestination(store, state, rewriter);
}

/// Refuses what is not a slice: stores have been seen to, and of a memref the
/// analysis would not know what else reads it.
static Value sliceOf(RewriterBase &rewriter, SubsetInsertionOpInterface op,
                     tensor::EmptyOp empty, Operation *user) {
  if (isa<MaterializeInDestinationOp>(op.getOperation()))
    return {};
  return buildSubsetExtraction(rewriter, op, empty, user);
}

namespace {
struct Bufferize : buddy::impl::BufferizeBase<Bufferize> {
  void runOnOperation() override {
    OneShotBufferizationOptions options;
    options.bufferizeFunctionBoundaries = true;
    options.functionArgTypeConverterFn = rowMajorArgument;
    options.inferFunctionResultLayout = true;
    options.allowReturnAllocsFromLoops = true;
    options.bufferAlignment = 64;
    IRRewriter rewriter(&getContext());
    unshareDestinations(getOperation(), rewriter);
    // Results that end in a destination are computed there.
    bool failed = false;
    for (auto fn : getOperation().getOps<func::FuncOp>()) {
      SmallVector<linalg::CopyOp> stores = tieDestinations(fn, rewriter);
      OneShotAnalysisState fnState(fn, options);
      if (mlir::failed(analyzeOp(fn, fnState))) {
        failed = true;
        continue;
      }
      computeInDestinations(stores, fnState, rewriter);
      if (mlir::failed(eliminateEmptyTensors(rewriter, fn, fnState, sliceOf)))
        failed = true;
    }
    BufferizationState bufferizationState;
    if (failed || mlir::failed(runOneShotModuleBufferize(
                      getOperation(), options, bufferizationState)))
      return signalPassFailure();
    // What later passes look for; one of a buffer to itself folds.
    getOperation().walk([&](linalg::CopyOp copy) {
      Value from = copy.getInputs()[0], to = copy.getOutputs()[0];
      if (!copy.hasPureBufferSemantics() ||
          getElementTypeOrSelf(from) != getElementTypeOrSelf(to))
        return;
      rewriter.setInsertionPoint(copy);
      rewriter.replaceOpWithNewOp<memref::CopyOp>(copy, from, to);
    });
  }
};
} // namespace
