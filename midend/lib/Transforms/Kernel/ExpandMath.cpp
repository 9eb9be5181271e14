//===- ExpandMath.cpp - polynomials for math functions --------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace buddy {
#define GEN_PASS_DEF_EXPANDMATH
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// Functions whose upstream approximation is within a few ulp over the whole
/// range. Sine and cosine are not among them: their range reduction loses
/// digits for large angles, which rotary embeddings have.
static bool hasApproximation(StringRef name) {
  return llvm::is_contained({"math.exp", "math.expm1", "math.tanh", "math.erf",
                             "math.log", "math.log2", "math.log1p"},
                            name);
}

namespace {
struct ExpandMath : buddy::impl::ExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathF32ExpansionPatterns(patterns, hasApproximation);
    populateMathPolynomialApproximationPatterns(patterns, hasApproximation);
    math::populateExpansionPatterns(
        patterns, {"clampf", "exp2", "rsqrt", "fpowi", "ctlz"});
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
