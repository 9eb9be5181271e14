//===- EntrySizes.cpp - sizes computed at a function's entry --------------===//

#include "EntrySizes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace buddy;

EntrySizes::EntrySizes(func::FuncOp function)
    : function(function), location(function.getLoc()),
      builder(OpBuilder::atBlockBegin(&function.getBody().front())),
      last(arith::ConstantIndexOp::create(builder, location, 0)) {
  insert(last);
}

Value EntrySizes::insert(Operation *op) {
  size_t hash = OperationEquivalence::computeHash(
      op, OperationEquivalence::directHashValue,
      OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
  for (Operation *other : known[hash])
    if (OperationEquivalence::isEquivalentTo(
            op, other, OperationEquivalence::exactValueMatch,
            /*markEquivalent=*/nullptr,
            OperationEquivalence::IgnoreLocations)) {
      op->erase();
      return other->getResult(0);
    }
  known[hash].push_back(op);
  last = op;
  return op->getResult(0);
}

Value EntrySizes::constant(int64_t value) {
  return make<arith::ConstantIndexOp>(value);
}

Value EntrySizes::get(Value value) {
  auto found = values.find(value);
  if (found != values.end())
    return found->second;
  Value result = compute(value);
  values[value] = result;
  return result;
}

Value EntrySizes::compute(Value value) {
  if (!value.getType().isIntOrIndex())
    return {};
  if (auto arg = dyn_cast<BlockArgument>(value))
    return arg.getOwner() == &function.getBody().front() ? value : Value();
  Operation *op = value.getDefiningOp();
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    std::optional<int64_t> index = dim.getConstantIndex();
    return index ? getDim(dim.getSource(), *index) : Value();
  }
  if (auto metadata = dyn_cast<memref::ExtractStridedMetadataOp>(op)) {
    for (auto [i, size] : llvm::enumerate(metadata.getSizes()))
      if (size == value)
        return getDim(metadata.getSource(), i);
    return {};
  }
  if (op->getNumRegions() != 0 || op->getNumResults() != 1 ||
      !isMemoryEffectFree(op))
    return {};
  // A division by zero that a branch guards must not move out of it.
  if (!isSpeculatable(op) && op->getBlock() != &function.getBody().front())
    return {};
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value mapped = get(operand);
    if (!mapped)
      return {};
    mapping.map(operand, mapped);
  }
  builder.setInsertionPointAfter(last);
  return insert(builder.clone(*op, mapping));
}

Value EntrySizes::getBound(Value value) {
  if (Value exact = get(value))
    return exact;
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  // The smaller of two numbers is at most either of them.
  if (isa<arith::MinSIOp, arith::MinUIOp>(op)) {
    for (Value operand : op->getOperands())
      if (Value bound = getBound(operand))
        return bound;
  } else if (auto min = dyn_cast<affine::AffineMinOp>(op)) {
    for (AffineExpr expr : min.getMap().getResults())
      if (auto bound = dyn_cast<AffineConstantExpr>(expr))
        return constant(bound.getValue());
  }
  return {};
}

Value EntrySizes::getDim(Value memref, int64_t dim) {
  auto found = dims.find({memref, dim});
  if (found != dims.end())
    return found->second;
  Value result = computeDim(memref, dim);
  dims[{memref, dim}] = result;
  return result;
}

/// The size that belongs to dimension `dim` of a view's result.
static OpFoldResult viewSize(memref::SubViewOp view, int64_t dim) {
  llvm::SmallBitVector dropped = view.getDroppedDims();
  for (auto [i, size] : llvm::enumerate(view.getMixedSizes()))
    if (!dropped.test(i) && dim-- == 0)
      return size;
  return {};
}

Value EntrySizes::computeDim(Value memref, int64_t dim) {
  auto type = dyn_cast<MemRefType>(memref.getType());
  if (!type || dim < 0 || dim >= type.getRank())
    return {};
  if (!type.isDynamicDim(dim))
    return constant(type.getDimSize(dim));
  if (auto arg = dyn_cast<BlockArgument>(memref)) {
    if (arg.getOwner() != &function.getBody().front())
      return {};
    Value index = constant(dim);
    return make<memref::DimOp>(memref, index);
  }
  auto fold = [&](OpFoldResult size) -> Value {
    if (!size)
      return {};
    if (std::optional<int64_t> number = getConstantIntValue(size))
      return constant(*number);
    return get(cast<Value>(size));
  };
  Operation *op = memref.getDefiningOp();
  if (isa<memref::AllocOp, memref::AllocaOp, memref::ViewOp>(op)) {
    ValueRange sizes =
        isa<memref::ViewOp>(op)
            ? ValueRange(cast<memref::ViewOp>(op).getSizes())
        : isa<memref::AllocOp>(op)
            ? ValueRange(cast<memref::AllocOp>(op).getDynamicSizes())
            : ValueRange(cast<memref::AllocaOp>(op).getDynamicSizes());
    return get(sizes[type.getDynamicDimIndex(dim)]);
  }
  if (auto view = dyn_cast<memref::SubViewOp>(op))
    return fold(viewSize(view, dim));
  if (auto view = dyn_cast<memref::ReinterpretCastOp>(op))
    return fold(view.getMixedSizes()[dim]);
  if (auto view = dyn_cast<memref::CastOp>(op))
    return getDim(view.getSource(), dim);
  if (auto view = dyn_cast<memref::MemorySpaceCastOp>(op))
    return getDim(view.getSource(), dim);
  if (auto view = dyn_cast<memref::TransposeOp>(op))
    return getDim(view.getIn(), view.getPermutation().getDimPosition(dim));
  if (auto view = dyn_cast<memref::ExpandShapeOp>(op))
    return fold(view.getMixedOutputShape()[dim]);
  if (auto view = dyn_cast<memref::CollapseShapeOp>(op)) {
    Value product = constant(1);
    for (int64_t source : view.getReassociationIndices()[dim]) {
      Value size = getDim(view.getSrc(), source);
      if (!size)
        return {};
      product = make<arith::MulIOp>(product, size);
    }
    return product;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    Value a = getDim(select.getTrueValue(), dim);
    return a == getDim(select.getFalseValue(), dim) ? a : Value();
  }
  return {};
}

std::optional<SmallVector<Value>>
EntrySizes::getCallSizes(func::CallOp call, func::FuncOp callee) {
  SmallVector<Value> result;
  auto push = [&](Value value) {
    if (value && !value.getType().isIndex())
      value = make<arith::IndexCastOp>(builder.getIndexType(), value);
    result.push_back(value);
    return value != nullptr;
  };
  // The callee has its workspace argument already, the call has not.
  for (auto [operand, type] :
       llvm::zip(call.getOperands(), callee.getArgumentTypes())) {
    if (auto memref = dyn_cast<MemRefType>(type)) {
      for (int64_t dim = 0; dim < memref.getRank(); ++dim)
        if (memref.isDynamicDim(dim) && !push(getDim(operand, dim)))
          return std::nullopt;
    } else if (type.isIntOrIndex() && !push(get(operand))) {
      return std::nullopt;
    }
  }
  return result;
}

unsigned buddy::countSizes(TypeRange arguments) {
  unsigned count = 0;
  for (Type type : arguments) {
    if (auto memref = dyn_cast<MemRefType>(type))
      count += memref.getNumDynamicDims();
    else
      count += type.isIntOrIndex();
  }
  return count;
}

SmallVector<Value> EntrySizes::cloneInto(func::FuncOp target,
                                         ValueRange roots) {
  Block *entry = &target.getBody().front();
  OpBuilder out = OpBuilder::atBlockEnd(entry);
  IRMapping mapping;
  // Where the sizes of each argument start.
  DenseMap<Value, unsigned> start;
  unsigned next = 0;
  for (BlockArgument arg : function.getArguments()) {
    start[arg] = next;
    next += countSizes(arg.getType());
  }
  auto clone = [&](auto &self, Value value) -> Value {
    if (Value done = mapping.lookupOrNull(value))
      return done;
    Value result;
    if (auto arg = dyn_cast<BlockArgument>(value)) {
      result = entry->getArgument(start[arg]);
      if (!arg.getType().isIndex())
        result =
            arith::IndexCastOp::create(out, location, arg.getType(), result);
    } else if (auto dim = value.getDefiningOp<memref::DimOp>()) {
      auto type = cast<MemRefType>(dim.getSource().getType());
      result =
          entry->getArgument(start[dim.getSource()] +
                             type.getDynamicDimIndex(*dim.getConstantIndex()));
    } else {
      Operation *op = value.getDefiningOp();
      for (Value operand : op->getOperands())
        self(self, operand);
      out.clone(*op, mapping);
      return mapping.lookup(value);
    }
    mapping.map(value, result);
    return result;
  };
  SmallVector<Value> results;
  for (Value root : roots)
    results.push_back(clone(clone, root));
  return results;
}
