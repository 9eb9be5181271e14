//===- SpecializeArguments.cpp - layouts of arguments as callers pass them ===//
//
// Enters: private functions on memrefs, whose arguments have the layout that
// fits any caller, each call casting what it passes. Leaves: arguments of the
// layout that all callers have in common, the cast being in the callee, where
// it folds into the ops.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace buddy {
#define GEN_PASS_DEF_SPECIALIZEARGUMENTS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// What a call passes before it casts it to another layout.
static Value lookThroughCast(Value passed) {
  auto cast = passed.getDefiningOp<memref::CastOp>();
  if (!cast)
    return passed;
  auto from = dyn_cast<MemRefType>(cast.getSource().getType());
  auto to = dyn_cast<MemRefType>(passed.getType());
  return from && to && from.getShape() == to.getShape() ? cast.getSource()
                                                        : passed;
}

namespace {
struct SpecializeArguments
    : buddy::impl::SpecializeArgumentsBase<SpecializeArguments> {
  void runOnOperation() override {
    llvm::MapVector<StringRef, SmallVector<func::CallOp>> calls;
    getOperation().walk(
        [&](func::CallOp call) { calls[call.getCallee()].push_back(call); });
    SymbolTable symbols(getOperation());
    // What a callee learns of its arguments it may pass on.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto &[name, sites] : calls) {
        auto function = symbols.lookup<func::FuncOp>(name);
        // Other uses than these calls would not learn of it.
        if (!function || !function.isPrivate() || function.isExternal() ||
            !hasOnlyUses(function, sites.size()))
          continue;
        for (unsigned i = 0; i < function.getNumArguments(); ++i)
          changed |= specialize(function, i, sites);
      }
    }
  }

  bool hasOnlyUses(func::FuncOp function, size_t count) {
    auto uses = SymbolTable::getSymbolUses(function, getOperation());
    return uses && size_t(std::distance(uses->begin(), uses->end())) == count;
  }

  static bool specialize(func::FuncOp function, unsigned i,
                         ArrayRef<func::CallOp> sites) {
    BlockArgument argument = function.getArgument(i);
    Type common;
    for (func::CallOp call : sites) {
      Type passed = lookThroughCast(call.getOperand(i)).getType();
      if (common && passed != common)
        return false;
      common = passed;
    }
    if (!common || common == argument.getType())
      return false;
    OpBuilder builder(function.getBody());
    Type general = argument.getType();
    argument.setType(common);
    auto cast =
        memref::CastOp::create(builder, function.getLoc(), general, argument);
    argument.replaceAllUsesExcept(cast, cast);
    function.setType(builder.getFunctionType(
        function.getBody().getArgumentTypes(), function.getResultTypes()));
    for (func::CallOp call : sites)
      call->setOperand(i, lookThroughCast(call.getOperand(i)));
    return true;
  }
};
} // namespace
