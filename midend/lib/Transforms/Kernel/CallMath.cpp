//===- CallMath.cpp - functions that upstream would lose the digits of ----===//
//
// Enters: code on scalars and vectors.
// Leaves: no math.expm1 and math.log1p. Upstream's conversion to the LLVM
// dialect would make exp(x) - 1 and log(1 + x) of them, which near 0 is
// rounding errors only.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"

namespace buddy {
#define GEN_PASS_DEF_CALLMATH
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

namespace {
struct CallMath : buddy::impl::CallMathBase<CallMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathToLibmConversionPatterns(patterns);
    ConversionTarget target(getContext());
    target.addIllegalOp<math::ExpM1Op, math::Log1pOp>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
