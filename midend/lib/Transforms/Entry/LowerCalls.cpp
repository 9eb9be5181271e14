//===- LowerCalls.cpp - calls of the run-time library ---------------------===//
//
// Enters: `buddy.scalar_call` in loops. Leaves: calls of C functions.
//
//===----------------------------------------------------------------------===//

#include "buddy/Dialect/Buddy.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERCALLS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// The declaration of a function of numbers, made if it is not there; null
/// after an error, which is one of types.
static LLVM::LLVMFuncOp declare(ModuleOp module, ScalarCallOp call) {
  auto type = LLVM::LLVMFunctionType::get(
      call.getType(), llvm::to_vector(call.getInputs().getTypes()));
  if (Operation *found = module.lookupSymbol(call.getCallee())) {
    auto function = dyn_cast<LLVM::LLVMFuncOp>(found);
    if (function && function.getFunctionType() == type)
      return function;
    call.emitError("'") << call.getCallee()
                        << "' is something else in this module";
    return {};
  }
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto function =
      LLVM::LLVMFuncOp::create(builder, call.getLoc(), call.getCallee(), type);
  function.setNoUnwind(true);
  function.setWillReturn(true);
  auto none = LLVM::ModRefInfo::NoModRef;
  function.setMemoryEffectsAttr(LLVM::MemoryEffectsAttr::get(
      module.getContext(), {none, none, none, none, none, none}));
  return function;
}

namespace {
struct LowerCalls : buddy::impl::LowerCallsBase<LowerCalls> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ScalarCallOp> calls;
    module.walk([&](ScalarCallOp call) { calls.push_back(call); });
    for (ScalarCallOp call : calls) {
      LLVM::LLVMFuncOp function = declare(module, call);
      if (!function)
        return signalPassFailure();
      OpBuilder builder(call);
      auto lowered = LLVM::CallOp::create(builder, call.getLoc(), function,
                                          call.getInputs());
      call.replaceAllUsesWith(lowered.getResult());
      call.erase();
    }
  }
};
} // namespace
