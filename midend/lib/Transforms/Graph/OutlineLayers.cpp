//===- OutlineLayers.cpp - repeated layers become one function ------------===//
//
// Enters: entry points whose ops carry `buddy.module` paths. Leaves: the same,
// groups that occur more than once replaced by calls of one function each.
//
// No search for isomorphic subgraphs: the importer says which op belongs to
// which layer, and functions made from two layers are compared op by op.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Affine/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Affine/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace buddy {
#define GEN_PASS_DEF_OUTLINELAYERS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// Ops that every user may have a copy of: no tensor flows into them.
static bool isRematerializable(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>() || isa<tensor::EmptyOp>(op);
}

namespace {
/// The ops of one layer in one entry point, in block order.
struct Group {
  StringRef path;
  llvm::SetVector<Operation *> ops;
  /// Values from outside, in order of first use: the function's arguments.
  llvm::SetVector<Value> inputs;
  /// Values used outside: the function's results.
  SmallVector<Value> outputs;
  /// For each output the sizes of its destination, or nothing if it updates an
  /// input in place or is a scalar.
  SmallVector<std::optional<SmallVector<OpFoldResult>>> destinations;
  func::FuncOp function;

  bool contains(Operation *op) const { return ops.contains(op); }
  /// The group's top-level op that holds `op`, or null.
  Operation *owner(Operation *op) const {
    for (; op; op = op->getParentOp())
      if (contains(op))
        return op;
    return nullptr;
  }
  bool defines(Value v) const {
    Operation *op = v.getDefiningOp();
    return op && contains(op);
  }

  bool isWorthwhile() const;
  void releaseShared();
  bool isConvex() const;
  bool collectValues();
  bool findDestinations(OpBuilder &builder);
  void buildFunction(OpBuilder &builder, StringRef name);
  /// `replaced` maps results of groups that are calls by now, and is added to.
  void replaceByCall(OpBuilder &builder, func::FuncOp callee,
                     IRMapping &replaced);
};
} // namespace

bool Group::isWorthwhile() const {
  return llvm::any_of(ops, [](Operation *op) {
    auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
    return isa<buddy::AttentionOp>(op) ||
           (linalgOp && linalg::isaContractionOpInterface(linalgOp));
  });
}

/// Gives the layer's path to pure ops without one that lie between two of its
/// ops: rewrites drop the attribute (a reshape that canonicalization replaced),
/// and one such op would keep the whole layer inline.
static void adoptOps(Block &block) {
  llvm::DenseMap<Operation *, Attribute> behind;
  auto pathOf = [](Operation *op) { return op->getAttr(buddy::kModuleAttr); };
  for (Operation &op : block) {
    if (pathOf(&op) || !isPure(&op) || isRematerializable(&op))
      continue;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        if (Attribute path = pathOf(def) ? pathOf(def) : behind.lookup(def))
          behind[&op] = path;
  }
  for (Operation &op : llvm::reverse(block))
    if (Attribute path = behind.lookup(&op))
      if (llvm::any_of(op.getUsers(), [&](Operation *user) {
            Operation *owner = block.findAncestorOpInBlock(*user);
            return owner && pathOf(owner) == path;
          }))
        op.setAttr(buddy::kModuleAttr, path);
}

/// Sizes computed in this layer but used by others too belong to no layer.
void Group::releaseShared() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation *op : llvm::to_vector(ops)) {
      bool scalar = llvm::none_of(op->getResultTypes(),
                                  [](Type t) { return isa<ShapedType>(t); });
      bool shared = llvm::any_of(op->getUsers(),
                                 [&](Operation *user) { return !owner(user); });
      bool free =
          llvm::none_of(op->getOperands(), [&](Value v) { return defines(v); });
      if (scalar && shared && free && isPure(op)) {
        ops.remove(op);
        changed = true;
      }
    }
  }
}

/// No value leaves the group and comes back.
bool Group::isConvex() const {
  llvm::SmallPtrSet<Operation *, 32> tainted;
  for (Operation &op : *ops.front()->getBlock()) {
    bool inGroup = contains(&op);
    bool usesTainted = false, usesGroup = false;
    op.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (Operation *def = v.getDefiningOp()) {
          usesTainted |= tainted.contains(def);
          usesGroup |= contains(def);
        }
    });
    if (inGroup && usesTainted)
      return false;
    if (!inGroup && (usesTainted || usesGroup))
      tainted.insert(&op);
  }
  return true;
}

bool Group::collectValues() {
  llvm::SmallPtrSet<Operation *, 16> visited;
  auto addInput = [&](auto &&self, Value v) -> bool {
    if (defines(v) || inputs.contains(v))
      return true;
    Operation *def = v.getDefiningOp();
    if (def && isRematerializable(def))
      return llvm::all_of(def->getOperands(),
                          [&](Value operand) { return self(self, operand); });
    if (isa<BaseMemRefType>(v.getType()))
      return false; // A layer works on tensors and scalars.
    if (auto toTensor = v.getDefiningOp<bufferization::ToTensorOp>()) {
      // Arguments of private functions have unit last stride.
      auto type = dyn_cast<MemRefType>(toTensor.getBuffer().getType());
      if (!type || (type.getRank() > 0 && !type.isLastDimUnitStride()))
        return false;
    }
    inputs.insert(v);
    return true;
  };
  for (Operation *op : ops) {
    bool ok = true;
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands()) {
        // Values of the op's own regions are not inputs.
        Operation *parent = v.getParentRegion()->getParentOp();
        if (parent == op || op->isProperAncestor(parent))
          continue;
        ok &= addInput(addInput, v);
      }
    });
    if (!ok)
      return false;
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !owner(user); }))
        outputs.push_back(result);
  }
  return true;
}

/// The value that `v` is an updated version of, through destinations.
static Value destinationRoot(Value v, const Group &group) {
  while (group.defines(v)) {
    auto result = dyn_cast<OpResult>(v);
    Operation *op = v.getDefiningOp();
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
      v = insert.getDest();
    else if (auto insert = dyn_cast<tensor::InsertOp>(op))
      v = insert.getDest();
    else if (auto loop = dyn_cast<scf::ForOp>(op))
      v = loop.getInitArgs()[result.getResultNumber()];
    else if (auto style = dyn_cast<DestinationStyleOpInterface>(op))
      v = style.getTiedOpOperand(result)->get();
    else
      break;
  }
  return v;
}

bool Group::findDestinations(OpBuilder &builder) {
  builder.setInsertionPoint(ops.front());
  for (Value output : outputs) {
    auto type = dyn_cast<RankedTensorType>(output.getType());
    Value root = type ? destinationRoot(output, *this) : Value();
    if (!type || inputs.contains(root)) {
      destinations.push_back(std::nullopt);
      continue;
    }
    SmallVector<OpFoldResult> sizes;
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      if (!type.isDynamicDim(dim)) {
        sizes.push_back(builder.getIndexAttr(type.getDimSize(dim)));
        continue;
      }
      // In terms of values from outside.
      FailureOr<OpFoldResult> size = affine::reifyShapedValueDimBound(
          builder, output.getLoc(), presburger::BoundType::EQ, output, dim,
          [&](Value v, std::optional<int64_t>, ValueBoundsConstraintSet &) {
            Operation *def = v.getDefiningOp();
            return !def ||
                   (!contains(def) && !owner(def) && !isRematerializable(def));
          });
      if (failed(size))
        return false;
      sizes.push_back(*size);
    }
    destinations.push_back(std::move(sizes));
  }
  return true;
}

void Group::buildFunction(OpBuilder &builder, StringRef name) {
  SmallVector<Type> arguments, results;
  for (Value v : inputs)
    arguments.push_back(v.getType());
  for (auto [output, sizes] : llvm::zip(outputs, destinations)) {
    results.push_back(output.getType());
    if (sizes)
      arguments.push_back(output.getType());
  }
  Location loc = ops.front()->getLoc();
  function = func::FuncOp::create(loc, name,
                                  builder.getFunctionType(arguments, results));
  function.setPrivate();
  Block *body = function.addEntryBlock();
  OpBuilder inner = OpBuilder::atBlockEnd(body);
  IRMapping mapping;
  for (auto [i, v] : llvm::enumerate(inputs))
    mapping.map(v, body->getArgument(i));
  auto rematerialize = [&](auto &&self, Value v) -> void {
    Operation *def = v.getDefiningOp();
    if (mapping.contains(v) || !def || !isRematerializable(def))
      return;
    for (Value operand : def->getOperands())
      self(self, operand);
    Operation *copy = inner.clone(*def, mapping);
    copy->removeAttr(buddy::kModuleAttr);
  };
  for (Operation *op : ops) {
    op->walk([&](Operation *nested) {
      for (Value v : nested->getOperands())
        rematerialize(rematerialize, v);
    });
    Operation *copy = inner.clone(*op, mapping);
    copy->walk(
        [](Operation *nested) { nested->removeAttr(buddy::kModuleAttr); });
  }
  unsigned next = inputs.size();
  SmallVector<Value> returned;
  for (auto [output, sizes] : llvm::zip(outputs, destinations)) {
    Value v = mapping.lookup(output);
    if (sizes) {
      function.setArgAttr(next, "bufferization.writable",
                          builder.getBoolAttr(true));
      v = bufferization::MaterializeInDestinationOp::create(
              inner, output.getLoc(), v.getType(), v, body->getArgument(next++))
              .getResult();
    }
    returned.push_back(v);
  }
  func::ReturnOp::create(inner, loc, returned);
}

void Group::replaceByCall(OpBuilder &builder, func::FuncOp callee,
                          IRMapping &replaced) {
  // What uses the results moves behind the call, which stands at the last op.
  Operation *last = ops.back();
  llvm::SmallPtrSet<Operation *, 32> moved;
  SmallVector<Operation *> order;
  for (Operation *op = ops.front(); op != last; op = op->getNextNode()) {
    if (contains(op))
      continue;
    bool depends = false;
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (Operation *def = v.getDefiningOp())
          depends |= contains(def) || moved.contains(def);
    });
    if (depends) {
      moved.insert(op);
      order.push_back(op);
    }
  }
  builder.setInsertionPointAfter(last);
  Location loc = ops.front()->getLoc();
  SmallVector<Value> arguments;
  for (Value v : inputs)
    arguments.push_back(replaced.lookupOrDefault(v));
  for (auto [output, sizes] : llvm::zip(outputs, destinations))
    if (sizes)
      arguments.push_back(tensor::EmptyOp::create(
          builder, loc, *sizes,
          cast<RankedTensorType>(output.getType()).getElementType()));
  auto call = func::CallOp::create(builder, loc, callee, arguments);
  Operation *after = call;
  for (Operation *op : order) {
    op->moveAfter(after);
    after = op;
  }
  for (auto [output, result] : llvm::zip(outputs, call.getResults())) {
    replaced.map(output, result);
    output.replaceUsesWithIf(
        result, [&](OpOperand &use) { return !owner(use.getOwner()); });
  }
  for (Operation *op : llvm::reverse(ops))
    op->erase();
}

namespace {
struct OutlineLayers : buddy::impl::OutlineLayersBase<OutlineLayers> {
  void getDependentDialects(DialectRegistry &registry) const override {
    OutlineLayersBase::getDependentDialects(registry);
    registry.insert<affine::AffineDialect, arith::ArithDialect>();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    OpBuilder builder(&getContext());
    for (auto entry : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (entry->hasAttr(buddy::kEntryAttr) && entry.getBody().hasOneBlock())
        outline(entry, symbols, builder);
  }

  void outline(func::FuncOp entry, SymbolTable &symbols, OpBuilder &builder) {
    adoptOps(entry.getBody().front());
    llvm::MapVector<StringAttr, Group> groups;
    for (Operation &op : entry.getBody().front()) {
      auto path = op.getAttrOfType<StringAttr>(buddy::kModuleAttr);
      if (!path || isRematerializable(&op) ||
          op.hasTrait<OpTrait::IsTerminator>())
        continue;
      Group &group = groups[path];
      group.path = path.getValue();
      group.ops.insert(&op);
    }
    // Candidates, then classes of equal functions.
    SmallVector<Group *> candidates;
    for (auto &[path, group] : groups) {
      group.releaseShared();
      if (group.ops.empty() || !group.isWorthwhile() || !group.isConvex() ||
          !group.collectValues() || !group.findDestinations(builder))
        continue;
      group.buildFunction(builder, (entry.getName() + ".layer").str());
      candidates.push_back(&group);
    }
    SmallVector<SmallVector<Group *>> classes;
    for (Group *group : candidates) {
      auto same = llvm::find_if(classes, [&](ArrayRef<Group *> members) {
        func::FuncOp other = members.front()->function;
        return other.getFunctionType() == group->function.getFunctionType() &&
               OperationEquivalence::isRegionEquivalentTo(
                   &other.getBody(), &group->function.getBody(),
                   OperationEquivalence::IgnoreLocations);
      });
      if (same == classes.end())
        classes.push_back({group});
      else
        same->push_back(group);
    }
    IRMapping replaced;
    for (ArrayRef<Group *> members : classes) {
      if (members.size() > 1)
        symbols.insert(members.front()->function);
      for (Group *group : members) {
        if (members.size() > 1)
          group->replaceByCall(builder, members.front()->function, replaced);
        if (members.size() == 1 || group != members.front())
          group->function.erase();
      }
    }
  }
};
} // namespace
