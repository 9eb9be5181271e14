//===- EmitEntries.cpp - context and exported entry points ----------------===//
//
// Enters: functions on memrefs with buddy.check and buddy.num_threads. Leaves:
// functions that take the call's context first, and for each entry point the
// two exported functions of the calling convention. Nothing else is exported.
//
//===----------------------------------------------------------------------===//

#include "EntryBuilder.h"

#include "buddy/Context.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

namespace buddy {
#define GEN_PASS_DEF_EMITENTRIES
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// Makes the context the first argument of each function with a body and the
/// first operand of each call of one.
static LogicalResult threadContext(ModuleOp module) {
  Type pointer = LLVM::LLVMPointerType::get(module.getContext());
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() &&
        failed(function.insertArgument(0, pointer, {}, function.getLoc())))
      return failure();
  SymbolTable symbols(module);
  auto result = module.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal())
      return WalkResult::advance();
    auto caller = call->getParentOfType<func::FuncOp>();
    if (!caller) {
      call.emitError("a call of @")
          << call.getCallee() << " outside of a function has no context";
      return WalkResult::interrupt();
    }
    call->insertOperands(0, caller.getArgument(0));
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// The thread count for so much work: 1 or the context's, which is made to be
/// at least 1.
static void lowerNumThreads(NumThreadsOp op, Value context,
                            int64_t parallelGrain) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Type i32 = builder.getI32Type();
  Value address = LLVM::GEPOp::create(
      builder, loc, context.getType(), builder.getI8Type(), context,
      ArrayRef<LLVM::GEPArg>{int32_t(offsetof(buddy_ctx, num_threads))});
  Value count = LLVM::LoadOp::create(builder, loc, i32, address);
  Value one = arith::ConstantIntOp::create(builder, loc, 1, 32);
  count = arith::MaxSIOp::create(builder, loc, count, one);
  Value grain = arith::ConstantIndexOp::create(builder, loc, parallelGrain);
  Value small = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                      op.getWork(), grain);
  Value threads = arith::SelectOp::create(builder, loc, small, one, count);
  op.replaceAllUsesWith(threads);
  op.erase();
}

/// `buddy.set_block_time(i32)`: tells libomp how long idle workers of the
/// calling thread's team spin; a negative time leaves it as it is.
static void addSetBlockTime(ModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = builder.getUnknownLoc();
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(module.getContext()), builder.getI32Type());
  LLVM::LLVMFuncOp::create(builder, loc, "kmp_set_blocktime", type);
  auto function = LLVM::LLVMFuncOp::create(builder, loc, "buddy.set_block_time",
                                           type, LLVM::Linkage::Internal);
  Block *entry = function.addEntryBlock(builder);
  Block *set = builder.createBlock(&function.getBody(), {});
  Block *exit = builder.createBlock(&function.getBody(), {});
  builder.setInsertionPointToStart(entry);
  Value time = entry->getArgument(0);
  Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI32Type(),
                                        builder.getI32IntegerAttr(0));
  Value given =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::sge, time, zero);
  LLVM::CondBrOp::create(builder, loc, given, set, exit);
  builder.setInsertionPointToStart(set);
  LLVM::CallOp::create(builder, loc, TypeRange{}, "kmp_set_blocktime", time);
  LLVM::BrOp::create(builder, loc, exit);
  builder.setInsertionPointToStart(exit);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// An exported constant string with a terminating NUL.
static void addString(ModuleOp module, StringRef name, StringRef text) {
  if (module.lookupSymbol(name))
    return;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  std::string bytes = text.str();
  bytes.push_back('\0');
  LLVM::GlobalOp::create(
      builder, module.getLoc(),
      LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size()),
      /*isConstant=*/true, LLVM::Linkage::External, name,
      builder.getStringAttr(bytes));
}

/// Leaves only the entries visible in the library.
static void hide(ModuleOp module) {
  auto internal =
      LLVM::LinkageAttr::get(module.getContext(), LLVM::Linkage::Internal);
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPrivate() && !function.isExternal())
      function->setAttr("llvm.linkage", internal);
  for (auto global : module.getOps<memref::GlobalOp>())
    if (!global.isExternal())
      global.setPrivate();
}

/// Ends the function here if the condition is false: what follows would not be
/// memory-safe. A check in a nested region can only record its failure.
static void returnUnless(CheckOp check) {
  auto function = dyn_cast<func::FuncOp>(check->getParentOp());
  if (!function)
    return;
  OpBuilder builder(check);
  Location loc = check.getLoc();
  Block *block = check->getBlock();
  Block *rest = block->splitBlock(check);
  Block *failed = builder.createBlock(&function.getBody());
  SmallVector<Value> results;
  for (Type type : function.getResultTypes())
    results.push_back(
        arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type)));
  func::ReturnOp::create(builder, loc, results);
  builder.setInsertionPointToEnd(block);
  cf::CondBranchOp::create(builder, loc, check.getCondition(), rest, failed);
}

namespace {
struct EmitEntries : buddy::impl::EmitEntriesBase<EmitEntries> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = module->getAttrOfType<TargetAttr>(kTargetAttr);
    FailureOr<TargetInfo> info = findTarget(module);
    if (failed(info))
      return signalPassFailure();
    SmallVector<func::FuncOp> entries;
    bool parallel = false;
    EntryNeeds needs;
    module.walk([&](Operation *op) {
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        function->hasAttr(kEntryAttr) ? entries.push_back(function)
                                      : function.setPrivate();
      }
      parallel |= isa<omp::ParallelOp, scf::ParallelOp, scf::ForallOp>(op);
      needs.tiles |= isa_and_nonnull<amx::AMXDialect>(op->getDialect());
    });
    if (failed(threadContext(module)))
      return signalPassFailure();

    MessageEmitter messages(module);
    SmallVector<Operation *> contextOps;
    module.walk([&](Operation *op) {
      if (isa<CheckOp, NumThreadsOp>(op))
        contextOps.push_back(op);
    });
    for (Operation *op : contextOps) {
      Value context = op->getParentOfType<func::FuncOp>().getArgument(0);
      if (auto threads = dyn_cast<NumThreadsOp>(op)) {
        lowerNumThreads(threads, context, info->parallelGrain);
        continue;
      }
      auto check = cast<CheckOp>(op);
      OpBuilder builder(check);
      messages.emitCheck(builder, check.getLoc(), context, check.getCondition(),
                         check.getMessage());
      if (check->hasAttr(kPreconditionAttr))
        returnUnless(check);
      check.erase();
    }

    needs.blockTime = parallel && info->openmp == "omp";
    if (needs.blockTime)
      addSetBlockTime(module);
    for (func::FuncOp entry : entries)
      if (failed(emitEntry(entry, messages, needs)))
        return signalPassFailure();
    if (auto id = module->getAttrOfType<StringAttr>("buddy.build_id"))
      addString(module, "buddy_build_id", id);
    if (target && !entries.empty())
      addString(module, "buddy_target",
                (target.getName() + "|" + target.getTriple() + "|" +
                 target.getCpu() + "|" + target.getFeatures())
                    .str());
    hide(module);
  }
};
} // namespace
