//===- PackWeights.cpp - weights in the layout kernels stream -------------===//
//
// Enters: entry points whose weight arguments may carry `buddy.format`, layers
// outlined, element-wise ops fused. Leaves: each such weight that only
// contractions and element reads use packed, with `buddy.packing`; no
// `buddy.format` any more. A weight with another use keeps its type, and the
// writer of the weights file stores it so.
//
// A layer's function is called with many weights, and its argument is packed
// for all of them or for none: values that flow into one another are one class.
// So are the arguments of one name of several entries: the file holds it once.
//
//===----------------------------------------------------------------------===//

#include "WeightPacking.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Passes.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace buddy {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

namespace {
/// What the uses of a weight allow. Reads of elements allow anything.
struct Uses {
  bool quantized = true; ///< All products are of rows and a weight [n, k].
  /// All products compute vectors along the first, or second, dimension.
  bool panels[2] = {true, true};
  bool isMultiplied = false;

  void operator&=(const Uses &other) {
    quantized &= other.quantized;
    panels[0] &= other.panels[0];
    panels[1] &= other.panels[1];
    isMultiplied |= other.isMultiplied;
  }
};

struct PackWeights : buddy::impl::PackWeightsBase<PackWeights> {
  using PackWeightsBase::PackWeightsBase;

  struct Root {
    StringRef format;
    MemRefType type;
  };
  /// Where values are one class they are packed alike or not at all.
  llvm::EquivalenceClasses<void *> classes;
  /// Values that hold a weight, in order of discovery: arguments, and tensors
  /// made of an entry's memrefs.
  llvm::SetVector<Value> values;
  DenseMap<Value, Uses> uses;
  DenseMap<Value, Root> roots;
  llvm::MapVector<StringRef, SmallVector<func::CallOp>> calls;

  void join(Value a, Value b) {
    classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }

  /// Follows one use; what it allows.
  Uses follow(OpOperand &use, SymbolTable &symbols) {
    Operation *user = use.getOwner();
    const Uses none = {false, {false, false}, false};
    if (auto tensor = dyn_cast<bufferization::ToTensorOp>(user)) {
      values.insert(tensor.getResult());
      join(use.get(), tensor.getResult());
      return {};
    }
    if (auto call = dyn_cast<func::CallOp>(user)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || callee.isExternal() || callee->hasAttr(kEntryAttr))
        return none;
      Value argument = callee.getArgument(use.getOperandNumber());
      values.insert(argument);
      join(use.get(), argument);
      return {};
    }
    if (isa<tensor::ExtractOp>(user))
      return {};
    std::optional<bool> columns = matchPanelUse(use);
    return {isQuantizableUse(use),
            {columns == false, columns == true},
            /*isMultiplied=*/true};
  }

  /// The packing of a value's class; null if it is not to be packed.
  Attribute packingOf(Value value, const TargetInfo &target) {
    Uses allowed;
    SmallVector<Root> sources;
    auto leader = classes.findLeader(value.getAsOpaquePointer());
    for (auto it = leader; it != classes.member_end(); ++it) {
      Value member = Value::getFromOpaquePointer(*it);
      allowed &= uses[member];
      auto root = roots.find(member);
      if (root != roots.end())
        sources.push_back(root->second);
    }
    Attribute packing;
    for (const Root &root : sources) {
      Attribute chosen = choose(root, allowed, target);
      if (!chosen || (packing && packing != chosen))
        return {};
      packing = chosen;
    }
    return packing;
  }

  static Attribute choose(const Root &root, const Uses &allowed,
                          const TargetInfo &target) {
    if (!isa<FloatType>(root.type.getElementType()) ||
        !root.type.getLayout().isIdentity())
      return {};
    if (root.format != kPlainFormat)
      return allowed.quantized
                 ? chooseQuantized(root.type.getContext(), root.format,
                                   root.type.getShape(), target)
                 : Attribute();
    if (!allowed.isMultiplied || !(allowed.panels[0] || allowed.panels[1]))
      return {};
    return choosePanels(root.type, /*transposed=*/!allowed.panels[0], target);
  }

  void pack(RewriterBase &rewriter, Value value, Attribute attribute,
            const TargetInfo &target) {
    auto quantized = dyn_cast<PackingAttr>(attribute);
    auto panels = dyn_cast<PanelsAttr>(attribute);
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      if (isa<linalg::LinalgOp>(use.getOwner())) {
        quantized ? packQuantizedUse(rewriter, use, quantized,
                                     activations == Activations::Int8, target)
                  : packPanelUse(rewriter, use, panels);
        continue;
      }
      if (auto extract = dyn_cast<tensor::ExtractOp>(use.getOwner()))
        rewriter.replaceOp(
            extract, quantized ? extractQuantized(rewriter, extract, quantized)
                               : extractFromPanels(rewriter, extract, panels));
    }
    Type type = quantized ? rewriter.getI8Type()
                          : getElementTypeOrSelf(value.getType());
    SmallVector<int64_t> shape =
        quantized ? quantized.storedShape() : panels.storedShape();
    bool isMemref = isa<MemRefType>(value.getType());
    value.setType(isMemref ? Type(MemRefType::get(shape, type))
                           : Type(RankedTensorType::get(shape, type)));
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return;
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    function.setType(rewriter.getFunctionType(
        function.getBody().getArgumentTypes(), function.getResultTypes()));
    if (!isMemref)
      return;
    unsigned i = argument.getArgNumber();
    function.setArgAttr(i, kPackingAttr, attribute);
    SmallVector<Attribute> dims;
    for (int64_t size : shape)
      dims.push_back(rewriter.getStringAttr(std::to_string(size)));
    function.setArgAttr(i, kShapeAttr, rewriter.getArrayAttr(dims));
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<TargetInfo> target = findTarget(module);
    if (failed(target))
      return signalPassFailure();
    SymbolTable symbols(module);
    module.walk(
        [&](func::CallOp call) { calls[call.getCallee()].push_back(call); });
    llvm::StringMap<Value> named;
    for (auto entry : module.getOps<func::FuncOp>())
      for (BlockArgument argument : entry.getArguments()) {
        auto format = entry.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), kFormatAttr);
        auto type = dyn_cast<MemRefType>(argument.getType());
        if (!format || !type || !entry->hasAttr(kEntryAttr))
          continue;
        values.insert(argument);
        classes.insert(argument.getAsOpaquePointer());
        roots[argument] = {format.getValue(), type};
        auto name = entry.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                       kNameAttr);
        if (name)
          join(named.try_emplace(name.getValue(), argument).first->second,
               argument);
        entry.removeArgAttr(argument.getArgNumber(), kFormatAttr);
      }
    for (size_t i = 0; i < values.size(); ++i) { // Grows as uses are followed.
      Uses allowed;
      for (OpOperand &use : values[i].getUses())
        allowed &= follow(use, symbols);
      uses[values[i]] = allowed;
    }
    // A function's argument is a weight in every call, or it is none.
    for (Value value : values) {
      auto argument = dyn_cast<BlockArgument>(value);
      if (!argument || roots.contains(value))
        continue;
      auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
      for (func::CallOp call : calls[function.getSymName()])
        if (!values.contains(call.getOperand(argument.getArgNumber())))
          uses[value] &= {false, {false, false}, false};
    }
    IRRewriter rewriter(&getContext());
    llvm::MapVector<Value, Attribute> packings;
    for (Value value : values)
      if (Attribute packing = packingOf(value, *target))
        packings[value] = packing;
    for (auto [value, packing] : packings)
      pack(rewriter, value, packing, *target);
    values.clear();
    classes = {};
    uses.clear();
    roots.clear();
    calls.clear();
  }
};
} // namespace
