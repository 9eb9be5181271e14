//===- VerifyImport.cpp - the contract of imported modules ----------------===//
//
// Fails early, with the argument's name, where a module is not what
// docs/architecture.md, section 2, says.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"

namespace buddy {
#define GEN_PASS_DEF_VERIFYIMPORT
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

static LogicalResult verifyArgument(func::FuncOp entry, unsigned i) {
  auto error = [&](auto &&...parts) -> LogicalResult {
    InFlightDiagnostic diagnostic = emitError(entry.getLoc(), "entry @");
    diagnostic << entry.getName() << ", argument " << i;
    if (auto name = entry.getArgAttrOfType<StringAttr>(i, buddy::kNameAttr))
      diagnostic << " (" << name.getValue() << ")";
    diagnostic << ": ";
    (diagnostic << ... << parts);
    return diagnostic;
  };
  Type type = entry.getArgumentTypes()[i];
  if (!isa<MemRefType>(type) && !type.isInteger(64))
    return error("must be a memref or an i64, not ", type);
  Attribute kindAttr = entry.getArgAttr(i, buddy::kKindAttr);
  if (kindAttr) {
    auto kind = dyn_cast<StringAttr>(kindAttr);
    if (!kind || !llvm::is_contained(
                     {"input", "weight", "state", "output", "size"}, kind))
      return error(buddy::kKindAttr,
                   " must be input, weight, state, output or size, not ",
                   kindAttr);
    if ((kind == "size") != type.isInteger(64))
      return error("an i64 is of kind size and a memref is not");
  }
  if (Attribute name = entry.getArgAttr(i, buddy::kNameAttr);
      name && !isa<StringAttr>(name))
    return error(buddy::kNameAttr, " must be a string");
  if (Attribute offset = entry.getArgAttr(i, buddy::kWeightOffsetAttr)) {
    auto number = dyn_cast<IntegerAttr>(offset);
    if (!number || number.getValue().isNegative())
      return error(buddy::kWeightOffsetAttr,
                   " must be an integer that is not negative");
  }
  if (Attribute shape = entry.getArgAttr(i, buddy::kShapeAttr)) {
    auto dims = dyn_cast<ArrayAttr>(shape);
    // An integer argument has one expression: its value.
    auto memref = dyn_cast<MemRefType>(type);
    int64_t expected = memref ? memref.getRank() : 1;
    if (!dims || int64_t(dims.size()) != expected ||
        !llvm::all_of(dims, [](Attribute a) { return isa<StringAttr>(a); }))
      return error(buddy::kShapeAttr, " must be one string for each dimension");
  }
  return success();
}

namespace {
struct VerifyImport : buddy::impl::VerifyImportBase<VerifyImport> {
  void runOnOperation() override {
    for (auto entry : getOperation().getOps<func::FuncOp>()) {
      if (!entry->hasAttr(buddy::kEntryAttr))
        continue;
      if (entry.isExternal()) {
        emitError(entry.getLoc(), "entry @")
            << entry.getName() << " has no body";
        return signalPassFailure();
      }
      if (entry.getNumResults() != 0) {
        emitError(entry.getLoc(), "entry @")
            << entry.getName()
            << " returns values; results are arguments of kind output";
        return signalPassFailure();
      }
      for (unsigned i = 0; i < entry.getNumArguments(); ++i)
        if (failed(verifyArgument(entry, i)))
          return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
