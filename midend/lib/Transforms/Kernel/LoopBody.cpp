//===- LoopBody.cpp - the body of a linalg op at a point or on vectors ----===//
//
// A body's values differ between the elements of a vector or are the same for
// all. Those that are the same stay scalars, and leave the loops that do not
// change them. What is read at computed places is a vector where these are
// adjacent, and gathered otherwise.
//
//===----------------------------------------------------------------------===//

#include "LoopEmitter.h"

#include "MathOps.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace buddy;

Value LoopEmitter::broadcast(Value v, const Step &step) {
  return vector::BroadcastOp::create(builder, loc, step.of(v.getType()), v);
}

/// The memory of a strided memref from its first element on, in one dimension.
static Value flatten(OpBuilder &builder, Location loc, Value memref,
                     memref::ExtractStridedMetadataOp layout) {
  auto type = cast<MemRefType>(memref.getType());
  auto flat = MemRefType::get(
      {ShapedType::kDynamic}, type.getElementType(),
      StridedLayoutAttr::get(builder.getContext(), ShapedType::kDynamic, {1}),
      type.getMemorySpace());
  // Nobody asks how long it is: what is read has been found to be inside.
  OpFoldResult one = builder.getIndexAttr(1);
  Value size = arith::ConstantIndexOp::create(
      builder, loc, std::numeric_limits<int32_t>::max());
  return memref::ReinterpretCastOp::create(builder, loc, flat, memref,
                                           layout.getConstifiedMixedOffset(),
                                           {size}, {one});
}

std::pair<Value, SmallVector<Value>>
LoopEmitter::adjacentPlace(OpOperand &operand) {
  Value memref = operand.get();
  SmallVector<Value> at = indices(op.getMatchingIndexingMap(&operand));
  if (cast<MemRefType>(memref.getType()).isLastDimUnitStride())
    return {memref, at};
  // Vectors are along the last dimension only.
  auto layout = memref::ExtractStridedMetadataOp::create(builder, loc, memref);
  Value place = constant(0);
  for (auto [index, stride] :
       llvm::zip_equal(at, layout.getConstifiedMixedStrides())) {
    Value by = getValueOrCreateConstantIndexOp(builder, loc, stride);
    place = builder.createOrFold<arith::AddIOp>(
        loc, place, builder.createOrFold<arith::MulIOp>(loc, index, by));
  }
  return {flatten(builder, loc, memref, layout), {place}};
}

Value LoopEmitter::loadVector(OpOperand &operand, const Step &step) {
  auto [memref, at] = adjacentPlace(operand);
  VectorType vector = step.of(getElementTypeOrSelf(memref.getType()));
  if (!step.mask)
    return vector::LoadOp::create(builder, loc, vector, memref, at);
  Value none =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(vector));
  return vector::MaskedLoadOp::create(builder, loc, vector, memref, at,
                                      step.mask, none);
}

Value LoopEmitter::load(OpOperand &operand, const Step &step) {
  Value memref = operand.get();
  if (!isa<MemRefType>(memref.getType()))
    return memref;
  AffineMap map = op.getMatchingIndexingMap(&operand);
  if (!step.shape || !map.isFunctionOfDim(step.dim))
    return memref::LoadOp::create(builder, loc, memref, indices(map));
  auto tile = tiles.find(&operand);
  return tile != tiles.end() ? tile->second[tileRow]
                             : loadVector(operand, step);
}

void LoopEmitter::store(Value value, OpOperand &output, const Step &step) {
  if (!step.shape) {
    SmallVector<Value> at = indices(op.getMatchingIndexingMap(&output));
    memref::StoreOp::create(builder, loc, value, output.get(), at);
    return;
  }
  auto [memref, at] = adjacentPlace(output);
  if (step.mask)
    vector::MaskedStoreOp::create(builder, loc, memref, at, step.mask, value);
  else
    vector::StoreOp::create(builder, loc, value, memref, at);
}

//===----------------------------------------------------------------------===//
// What differs between the elements of a vector
//===----------------------------------------------------------------------===//

LoopEmitter::Lanes LoopEmitter::lanesOf(const LaneMap &lanes, Value v) {
  auto found = lanes.find(v);
  return found == lanes.end() ? Lanes::Same : found->second;
}

/// True if a scalar, that of the first lane, stands for all lanes' values.
bool LoopEmitter::isScalar(const LaneMap &lanes, Value v) {
  return lanesOf(lanes, v) <= Lanes::Backward;
}

LoopEmitter::Lanes LoopEmitter::counting(Operation &inner,
                                         const LaneMap &lanes) {
  // Narrower integers may wrap between two lanes.
  auto isWide = [](Type type) { return type.isIndex() || type.isInteger(64); };
  if (!llvm::all_of(inner.getOperandTypes(), isWide) ||
      !llvm::all_of(inner.getResultTypes(), isWide))
    return Lanes::Computed;
  auto kind = [&](unsigned i) { return lanesOf(lanes, inner.getOperand(i)); };
  if (isa<arith::IndexCastOp>(inner))
    return kind(0);
  if (!isa<arith::AddIOp, arith::SubIOp>(inner))
    return Lanes::Computed;
  if (kind(1) == Lanes::Same)
    return kind(0);
  // A sum of two that count is twice as fast.
  if (kind(0) != Lanes::Same)
    return Lanes::Computed;
  if (isa<arith::AddIOp>(inner))
    return kind(1);
  return kind(1) == Lanes::Counting ? Lanes::Backward : Lanes::Counting;
}

LoopEmitter::LaneMap LoopEmitter::classify(ArrayRef<unsigned> dims) {
  LaneMap lanes;
  auto moves = [&](OpOperand &operand) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    return llvm::any_of(dims,
                        [&](unsigned dim) { return map.isFunctionOfDim(dim); });
  };
  for (OpOperand *input : op.getDpsInputOperands())
    if (isa<MemRefType>(input->get().getType()) && moves(*input))
      lanes[op.getMatchingBlockArgument(input)] = Lanes::Data;
  for (BlockArgument arg : op.getRegionOutputArgs())
    lanes[arg] = Lanes::Data;
  for (Operation &inner : op->getRegion(0).front().without_terminator()) {
    Lanes most = Lanes::Same;
    for (Value v : inner.getOperands())
      most = std::max(most, lanesOf(lanes, v));
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      if (llvm::is_contained(dims, index.getDim()))
        most = Lanes::Counting;
    } else if (inner.getNumRegions() != 0) {
      most = Lanes::Data;
    } else if (isa<memref::LoadOp>(inner)) {
      most = most == Lanes::Same ? Lanes::Same : Lanes::Data;
    } else if (most == Lanes::Counting || most == Lanes::Backward) {
      most = counting(inner, lanes);
    }
    if (most != Lanes::Same)
      for (Value result : inner.getResults())
        lanes[result] = most;
  }
  return lanes;
}

Value LoopEmitter::scalarOf(Value v, IRMapping &scalars) {
  if (Value mapped = scalars.lookupOrNull(v))
    return mapped;
  Operation *def = v.getDefiningOp();
  if (!def || def->getBlock() != &op->getRegion(0).front())
    return v;
  Value copy = builder.clone(*def)->getResult(0);
  scalars.map(v, copy);
  return copy;
}

void LoopEmitter::hoist(ArrayRef<unsigned> inside) {
  LaneMap lanes = classify(inside);
  auto isSame = [&](Value v) { return lanesOf(lanes, v) == Lanes::Same; };
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(input);
    if (!arg.use_empty() && isSame(arg) && !hoisted.contains(arg))
      hoisted.map(arg, load(*input, Step()));
  }
  // A loop without iterations must not read at a computed place: there may be
  // no element.
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  bool runs = llvm::all_of(inside, [&](unsigned dim) {
    return !ShapedType::isDynamic(ranges[dim]) && ranges[dim] > 0;
  });
  for (Operation &inner : op->getRegion(0).front().without_terminator()) {
    if (inner.getNumResults() != 1 || !isSame(inner.getResult(0)) ||
        inner.hasTrait<OpTrait::ConstantLike>() ||
        hoisted.contains(inner.getResult(0)))
      continue;
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      hoisted.map(index.getResult(), ivs[index.getDim()]);
      continue;
    }
    auto isThere = [&](Value v) {
      Operation *def = v.getDefiningOp();
      return hoisted.contains(v) ||
             v.getParentBlock() != &op->getRegion(0).front() ||
             (def && def->hasTrait<OpTrait::ConstantLike>());
    };
    if (!llvm::all_of(inner.getOperands(), isThere) ||
        !(isPure(&inner) || (isa<memref::LoadOp>(inner) && runs)))
      continue;
    for (Value v : inner.getOperands())
      scalarOf(v, hoisted);
    builder.clone(inner, hoisted);
  }
}

//===----------------------------------------------------------------------===//
// Reading at computed places
//===----------------------------------------------------------------------===//

/// True if no element is as many as 2^31 elements away from the first.
static bool isSmall(MemRefType type) {
  auto [strides, offset] = type.getStridesAndOffset();
  int64_t span = 0;
  for (auto [size, stride] : llvm::zip(type.getShape(), strides)) {
    if (ShapedType::isDynamic(size) || ShapedType::isDynamic(stride))
      return false;
    span += size * stride;
  }
  return span < std::numeric_limits<int32_t>::max();
}

bool LoopEmitter::movesInRow(memref::LoadOp load, const LaneMap &lanes) {
  return cast<MemRefType>(load.getMemRef().getType()).isLastDimUnitStride() &&
         llvm::all_of(load.getIndices().drop_back(), [&](Value v) {
           return lanesOf(lanes, v) == Lanes::Same;
         });
}

bool LoopEmitter::gathers(unsigned dim) {
  LaneMap lanes = classify(dim);
  return llvm::any_of(op->getRegion(0).front().getOps<memref::LoadOp>(),
                      [&](memref::LoadOp load) {
                        if (lanesOf(lanes, load) == Lanes::Same)
                          return false;
                        Lanes last = lanesOf(lanes, load.getIndices().back());
                        return !movesInRow(load, lanes) ||
                               (last != Lanes::Counting &&
                                last != Lanes::Backward);
                      });
}

Value LoopEmitter::loadLanes(memref::LoadOp load, BodyValues &values,
                             const Step &step) {
  Value memref = load.getMemRef();
  auto type = cast<MemRefType>(memref.getType());
  VectorType shape = step.of(type.getElementType());
  auto lanes = [&](Value v) { return lanesOf(values.lanes, v); };
  OperandRange places = load.getIndices();
  auto fixed = llvm::to_vector(llvm::map_range(places, [&](Value v) -> Value {
    return isScalar(values.lanes, v) ? scalarOf(v, values.scalars)
                                     : constant(0);
  }));
  bool movesAlongRow = movesInRow(load, values.lanes);
  if (movesAlongRow && lanes(places.back()) == Lanes::Counting)
    return vector::LoadOp::create(builder, loc, shape, memref, fixed);
  if (movesAlongRow && lanes(places.back()) == Lanes::Backward &&
      !shape.isScalable()) {
    int64_t count = shape.getDimSize(0);
    fixed.back() = builder.createOrFold<arith::SubIOp>(loc, fixed.back(),
                                                       constant(count - 1));
    Value read = vector::LoadOp::create(builder, loc, shape, memref, fixed);
    SmallVector<int64_t> order;
    for (int64_t i = count; i-- > 0;)
      order.push_back(i);
    return vector::ShuffleOp::create(builder, loc, read, read, order);
  }

  // How far each lane is from the element at the fixed places.
  VectorType indexShape = step.of(builder.getIndexType());
  auto vectorIndex = [&](Value place) { return vectorOf(place, values, step); };
  Value base = memref, distance;
  SmallVector<Value> from = fixed;
  if (movesAlongRow) {
    distance = vectorIndex(places.back());
    from.back() = constant(0);
  } else {
    auto layout =
        memref::ExtractStridedMetadataOp::create(builder, loc, memref);
    base = flatten(builder, loc, memref, layout);
    Value start = constant(0);
    for (auto [place, stride] :
         llvm::zip(places, layout.getConstifiedMixedStrides())) {
      Value by = getValueOrCreateConstantIndexOp(builder, loc, stride);
      if (lanes(place) == Lanes::Same) {
        Value part = builder.createOrFold<arith::MulIOp>(
            loc, scalarOf(place, values.scalars), by);
        start = builder.createOrFold<arith::AddIOp>(loc, start, part);
        continue;
      }
      Value part = vectorIndex(place);
      if (getConstantIntValue(stride) != 1)
        part = arith::MulIOp::create(
            builder, loc, part,
            vector::BroadcastOp::create(builder, loc, indexShape, by));
      distance =
          distance
              ? arith::AddIOp::create(builder, loc, distance, part).getResult()
              : part;
    }
    from = {start};
  }

  auto gather = [&]() -> Value {
    Value narrow = distance;
    if (isSmall(type))
      narrow = arith::IndexCastOp::create(
          builder, loc, step.of(builder.getI32Type()), distance);
    VectorType bits = step.of(builder.getI1Type());
    Value all = arith::ConstantOp::create(builder, loc,
                                          DenseElementsAttr::get(bits, true));
    Value none = arith::ConstantOp::create(builder, loc, shape,
                                           builder.getZeroAttr(shape));
    return vector::GatherOp::create(builder, loc, shape, base, from, narrow,
                                    all, none);
  };
  bool isComputed =
      llvm::none_of(places, [&](Value v) { return lanes(v) == Lanes::Data; });
  if (!isComputed)
    return gather();
  // Padding and its kin: most vectors are adjacent elements after all.
  Value first = vector::ExtractOp::create(builder, loc, distance, 0);
  Value counting = arith::AddIOp::create(
      builder, loc,
      vector::BroadcastOp::create(builder, loc, indexShape, first),
      vector::StepOp::create(builder, loc, indexShape));
  Value differs = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                        distance, counting);
  Value any = vector::ReductionOp::create(builder, loc,
                                          vector::CombiningKind::OR, differs);
  auto branch = scf::IfOp::create(builder, loc, shape, any, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(builder, loc, gather());
  builder.setInsertionPointToStart(&branch.getElseRegion().front());
  from.back() = builder.createOrFold<arith::AddIOp>(loc, from.back(), first);
  scf::YieldOp::create(
      builder, loc,
      vector::LoadOp::create(builder, loc, shape, base, from).getResult());
  return branch.getResult(0);
}

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

Value LoopEmitter::vectorOf(Value v, BodyValues &values, const Step &step) {
  if (Value mapped = values.vectors.lookupOrNull(v))
    return mapped;
  Value result = broadcast(scalarOf(v, values.scalars), step);
  Lanes kind = lanesOf(values.lanes, v);
  if (kind != Lanes::Same) {
    Value lanes =
        vector::StepOp::create(builder, loc, step.of(builder.getIndexType()));
    if (lanes.getType() != result.getType())
      lanes = arith::IndexCastOp::create(builder, loc, result.getType(), lanes);
    if (kind == Lanes::Counting)
      result = arith::AddIOp::create(builder, loc, result, lanes);
    else
      result = arith::SubIOp::create(builder, loc, result, lanes);
  }
  values.vectors.map(v, result);
  return result;
}

SmallVector<Value> LoopEmitter::body(ValueRange accumulators,
                                     const Step &step) {
  Block &block = op->getRegion(0).front();
  BodyValues values;
  values.scalars = hoisted;
  if (step.shape)
    values.lanes = classify(step.dim);
  auto staysScalar = [&](Value v) { return isScalar(values.lanes, v); };
  auto set = [&](Value v, Value now) {
    (staysScalar(v) ? values.scalars : values.vectors).map(v, now);
  };
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(input);
    if (!arg.use_empty() && !hoisted.contains(arg))
      set(arg, load(*input, step));
  }
  for (auto [i, arg] : llvm::enumerate(op.getRegionOutputArgs()))
    if (!arg.use_empty())
      set(arg, accumulators[i]);
  for (Operation &inner : block.without_terminator()) {
    // Constants are made where they are used.
    if (inner.hasTrait<OpTrait::ConstantLike>())
      continue;
    if (inner.getNumResults() == 1 && hoisted.contains(inner.getResult(0)))
      continue;
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      values.scalars.map(index.getResult(), ivs[index.getDim()]);
      continue;
    }
    Operation *copy;
    if (llvm::all_of(inner.getResults(), staysScalar)) {
      // Constants inside of its regions are none of this block's.
      inner.walk([&](Operation *nested) {
        for (Value v : nested->getOperands())
          if (v.getParentBlock() == &block)
            scalarOf(v, values.scalars);
      });
      copy = builder.clone(inner, values.scalars);
    } else if (auto read = dyn_cast<memref::LoadOp>(inner)) {
      values.vectors.map(read.getResult(), loadLanes(read, values, step));
      continue;
    } else {
      SmallVector<Value> operands;
      for (Value v : inner.getOperands())
        operands.push_back(vectorOf(v, values, step));
      SmallVector<Type> types;
      for (Type t : inner.getResultTypes())
        types.push_back(step.of(t));
      copy = builder.create(loc, inner.getName().getIdentifier(), operands,
                            types, inner.getAttrs());
      values.vectors.map(inner.getResults(), copy->getResults());
    }
    // The order of a reduction is not defined, so the vectorizer may choose.
    bool reduces = llvm::any_of(carriedOutputs(), [&](OpOperand *output) {
      return llvm::is_contained(inner.getOperands(),
                                op.getMatchingBlockArgument(output));
    });
    if (reduces && isa<arith::AddFOp, arith::MulFOp>(copy))
      copy->setAttr("fastmath",
                    arith::FastMathFlagsAttr::get(
                        builder.getContext(), arith::FastMathFlags::reassoc));
  }
  SmallVector<Value> yielded;
  for (Value v : block.getTerminator()->getOperands())
    yielded.push_back(step.shape ? vectorOf(v, values, step)
                                 : scalarOf(v, values.scalars));
  return yielded;
}

//===----------------------------------------------------------------------===//
// What has no vector form
//===----------------------------------------------------------------------===//

/// Math functions that ExpandMath turns into arithmetic, and those that are an
/// instruction. Others would become a call for each lane.
static bool isVectorMath(Operation *op) {
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  if (isMathInstruction(op))
    return type.isF32() || type.isF64() || type.isInteger();
  StringRef name = op->getName().getStringRef();
  return type.isF64() ? isDoubleFunction(name)
                      : type.isF32() && isExpanded(name);
}

/// Bits lie in a byte each; buddy-expand-bools sees to their vectors.
static bool hasVectors(Type element) {
  return element.isInteger(1) ||
         (element.isIntOrFloat() && element.getIntOrFloatBitWidth() >= 8);
}

std::string LoopEmitter::obstacle(unsigned dim, bool outputs) {
  auto says = [](const auto &thing, StringRef what) {
    return llvm::formatv("{0} {1}", thing, what).str();
  };
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type)
      continue;
    Type element = type.getElementType();
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (!map.isFunctionOfDim(dim)) {
      if (!VectorType::isValidElementType(element))
        return says(element, "is no element of a vector");
      continue;
    }
    if (!hasVectors(element))
      return says(element, "has no vectors in memory");
    if (!outputs && op.isDpsInit(&operand))
      continue;
    if (!isAdjacent(operand, dim) && !isTransposed(operand))
      return says(op.isDpsInit(&operand) ? "an output" : "an input",
                  "is not contiguous along the innermost loop");
  }
  LaneMap lanes = classify(dim);
  for (Operation &inner : op->getRegion(0).front().without_terminator()) {
    if (isa<linalg::IndexOp>(inner) || inner.hasTrait<OpTrait::ConstantLike>())
      continue;
    if (inner.getNumResults() == 0 || inner.getNumRegions() != 0)
      return says(inner.getName(), "has no vector form");
    // Values that all lanes share, or that count, are computed once.
    bool staysScalar = llvm::all_of(
        inner.getResults(), [&](Value v) { return isScalar(lanes, v); });
    if (auto read = dyn_cast<memref::LoadOp>(inner); read && !staysScalar) {
      MemRefType type = read.getMemRefType();
      if (!hasVectors(type.getElementType()))
        return says(type.getElementType(), "has no vectors in memory");
      if (!type.isStrided())
        return says(type, "has no strides");
      continue;
    }
    if (staysScalar)
      continue;
    if (!OpTrait::hasElementwiseMappableTraits(&inner))
      return says(inner.getName(), "has no vector form");
    for (Type t : inner.getResultTypes())
      if (!VectorType::isValidElementType(t))
        return says(t, "is no element of a vector");
    if (isa_and_nonnull<math::MathDialect>(inner.getDialect()) &&
        !isVectorMath(&inner))
      return says(inner.getName(), "has no vector form");
  }
  // What is used as a vector must be one.
  for (Operation &inner : op->getRegion(0).front())
    for (Value v : inner.getOperands())
      if (v.getParentBlock() != &op->getRegion(0).front() &&
          !isa<MemRefType>(v.getType()) &&
          !VectorType::isValidElementType(v.getType()))
        return says(v.getType(), "is no element of a vector");
  return {};
}
