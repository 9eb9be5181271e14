//===- LowerCalls.cpp - calls of the run-time library ---------------------===//
//
// Enters: `buddy.scalar_call` in loops, `buddy.library_call` on memrefs.
// Leaves: calls of C functions.
//
//===----------------------------------------------------------------------===//

#include "buddy/Dialect/Buddy.h"
#include "buddy/Runtime/Array.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/OpenMP/OpenMPDialect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

#include <cstddef>

namespace buddy {
#define GEN_PASS_DEF_LOWERCALLS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// The declaration of a function of the library, made if it is not there; null
/// after an error, which is one of types.
static LLVM::LLVMFuncOp declare(ModuleOp module, Operation *call,
                                StringRef callee, LLVM::LLVMFunctionType type) {
  if (Operation *found = module.lookupSymbol(callee)) {
    auto function = dyn_cast<LLVM::LLVMFuncOp>(found);
    if (function && function.getFunctionType() == type)
      return function;
    call->emitError("'") << callee << "' is something else in this module";
    return {};
  }
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto function =
      LLVM::LLVMFuncOp::create(builder, call->getLoc(), callee, type);
  function.setNoUnwind(true);
  function.setWillReturn(true);
  return function;
}

static LogicalResult lower(ModuleOp module, ScalarCallOp call) {
  auto type = LLVM::LLVMFunctionType::get(
      call.getType(), llvm::to_vector(call.getInputs().getTypes()));
  LLVM::LLVMFuncOp function = declare(module, call, call.getCallee(), type);
  if (!function)
    return failure();
  auto none = LLVM::ModRefInfo::NoModRef;
  function.setMemoryEffectsAttr(LLVM::MemoryEffectsAttr::get(
      module.getContext(), {none, none, none, none, none, none}));
  OpBuilder builder(call);
  auto lowered =
      LLVM::CallOp::create(builder, call.getLoc(), function, call.getInputs());
  call.replaceAllUsesWith(lowered.getResult());
  call.erase();
  return success();
}

/// A pointer to the `buddy_array` of a memref. All fields are eight bytes.
static Value describe(OpBuilder &builder, Location loc, Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  Type i64 = builder.getI64Type();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  auto number = [&](Value index) -> Value {
    return arith::IndexCastOp::create(builder, loc, i64, index);
  };
  auto data = memref::ExtractStridedMetadataOp::create(builder, loc, memref);
  Value address = number(memref::ExtractAlignedPointerAsIndexOp::create(
      builder, loc, data.getBaseBuffer()));
  // The size of a complex number is that of its parts.
  Type element = type.getElementType();
  auto complex = dyn_cast<ComplexType>(element);
  int64_t bytes = complex
                      ? 2 * complex.getElementType().getIntOrFloatBitWidth() / 8
                      : element.getIntOrFloatBitWidth() / 8;
  Value offset = arith::MulIOp::create(builder, loc, number(data.getOffset()),
                                       constant(bytes));
  static_assert(offsetof(buddy_array, data) == 0 &&
                offsetof(buddy_array, element) == 8 &&
                offsetof(buddy_array, rank) == 16 &&
                offsetof(buddy_array, extents) == 24);
  SmallVector<Value> fields = {
      arith::AddIOp::create(builder, loc, address, offset),
      constant(*libraryElement(element)), constant(type.getRank())};
  for (Value extent :
       llvm::concat<Value>(SmallVector<Value>(data.getSizes()),
                           SmallVector<Value>(data.getStrides())))
    fields.push_back(number(extent));
  Value array;
  {
    // In the frame, once, whatever loop the call is in.
    OpBuilder::InsertionGuard guard(builder);
    Operation *scope = nullptr;
    for (Operation *op = builder.getBlock()->getParentOp(); op;
         op = op->getParentOp())
      if (isa<func::FuncOp, omp::ParallelOp, memref::AllocaScopeOp>(op)) {
        scope = op;
        break;
      }
    builder.setInsertionPointToStart(&scope->getRegion(0).front());
    array = LLVM::AllocaOp::create(builder, loc, pointer, i64,
                                   constant(fields.size()));
  }
  for (auto [i, field] : llvm::enumerate(fields)) {
    Value place = LLVM::GEPOp::create(builder, loc, pointer, i64, array,
                                      ArrayRef<LLVM::GEPArg>{int32_t(i)});
    LLVM::StoreOp::create(builder, loc, field, place);
  }
  return array;
}

static LogicalResult lower(ModuleOp module, LibraryCallOp call) {
  OpBuilder builder(call);
  SmallVector<Value> arguments;
  for (Value operand : call.getOperands()) {
    if (isa<TensorType>(operand.getType()))
      return call.emitError("is not on buffers yet");
    arguments.push_back(isa<MemRefType>(operand.getType())
                            ? describe(builder, call.getLoc(), operand)
                            : operand);
  }
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(module.getContext()),
      llvm::to_vector(ValueRange(arguments).getTypes()));
  LLVM::LLVMFuncOp function = declare(module, call, call.getCallee(), type);
  if (!function)
    return failure();
  LLVM::CallOp::create(builder, call.getLoc(), function, arguments);
  call.erase();
  return success();
}

/// Fails where the library is not there for the module's target.
static LogicalResult checkTarget(ModuleOp module, Operation *call,
                                 StringRef callee) {
  FailureOr<TargetInfo> target = findTarget(module);
  if (failed(target))
    return failure();
  llvm::Triple host(llvm::sys::getDefaultTargetTriple());
  llvm::Triple triple(target->triple);
  if (triple.getArch() == host.getArch())
    return success();
  return call->emitError("'")
         << callee
         << "' is a function of the run-time library, which is built for "
         << host.getArchName() << " and not for " << triple.getArchName();
}

namespace {
struct LowerCalls : buddy::impl::LowerCallsBase<LowerCalls> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<Operation *> calls;
    module.walk([&](Operation *op) {
      if (isa<ScalarCallOp, LibraryCallOp>(op))
        calls.push_back(op);
    });
    for (Operation *op : calls) {
      auto scalar = dyn_cast<ScalarCallOp>(op);
      StringRef callee =
          scalar ? scalar.getCallee() : cast<LibraryCallOp>(op).getCallee();
      if (failed(checkTarget(module, op, callee)) ||
          failed(scalar ? lower(module, scalar)
                        : lower(module, cast<LibraryCallOp>(op))))
        return signalPassFailure();
    }
  }
};
} // namespace
