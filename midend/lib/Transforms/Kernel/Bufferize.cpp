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
  return cast<BufferLikeType>(
      MemRefType::get(tensor.getShape(), tensor.getElementType(), layout, space));
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
