//===- ExpandMath.cpp - polynomials for math functions --------------------===//

#include "MathOps.h"
#include "buddy/Transforms/Passes.h"
#include "buddy/Transforms/Remarks.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace buddy {
#define GEN_PASS_DEF_EXPANDMATH
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// Tells of functions that are called for each element of a loop.
static void reportCalls(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (!isMathCall(op) || op->hasAttr(kMathCall) ||
        !(op->getParentOfType<LoopLikeOpInterface>() ||
          op->getParentOfType<omp::LoopNestOp>()))
      return;
    remark::missed(op->getLoc(), remarkOptions("math-call", op))
        << remark::metric(
               "function",
               llvm::formatv("{0} {1}", op->getName().getStringRef(),
                             getElementTypeOrSelf(op->getResult(0).getType()))
                   .str());
  });
}

namespace {
struct ExpandMath : buddy::impl::ExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathF32ExpansionPatterns(patterns, isExpanded);
    populateMathFunctionPatterns(patterns);
    populateWideFunctionPatterns(patterns);
    populateDoubleFunctionPatterns(patterns);
    populateMathPolynomialApproximationPatterns(
        patterns, [](StringRef name) { return name == "math.exp"; });
    math::populateExpansionPatterns(patterns,
                                    {"clampf", "rsqrt", "fpowi", "ctlz"});
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCalls(getOperation());
  }
};
} // namespace
