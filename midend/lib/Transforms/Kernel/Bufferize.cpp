//===- Bufferize.cpp - one-shot bufferization in place --------------------===//

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
    OneShotAnalysisState state(getOperation(), options);
    bool failed = false;
    for (auto fn : getOperation().getOps<func::FuncOp>()) {
      OneShotAnalysisState fnState(fn, options);
      if (mlir::failed(analyzeOp(fn, fnState)) ||
          mlir::failed(eliminateEmptyTensors(rewriter, fn, fnState)))
        failed = true;
    }
    BufferizationState bufferizationState;
    if (failed || mlir::failed(runOneShotModuleBufferize(
                      getOperation(), options, bufferizationState)))
      signalPassFailure();
  }
};
} // namespace
