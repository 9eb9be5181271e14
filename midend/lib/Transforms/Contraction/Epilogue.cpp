//===- Epilogue.cpp - the element-wise op after a contraction -------------===//

#include "Emitter.h"
#include "buddy/Transforms/Buffer.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace buddy;

//===----------------------------------------------------------------------===//
// Finding it
//===----------------------------------------------------------------------===//

/// The op may write one of `read` or touch `written` at all. All are buffers.
static bool interferes(Operation *op, ArrayRef<Value> read, Value written) {
  if (isMemoryEffectFree(op) || isa<memref::AllocOp>(op))
    return false;
  auto effects = getEffectsRecursively(op);
  if (!effects)
    return true;
  return llvm::any_of(*effects, [&](const MemoryEffects::EffectInstance &e) {
    Value buffer = e.getValue() ? getBuffer(e.getValue()) : Value();
    if (!buffer || buffer == written)
      return true;
    return !isa<MemoryEffects::Read>(e.getEffect()) &&
           llvm::is_contained(read, buffer);
  });
}

/// The element-wise op on buffers that could be an epilogue by its own form.
static bool isElementwise(linalg::GenericOp op) {
  auto isSimple = [](AffineMap map) {
    return map.isProjectedPermutation(/*allowZeroInResults=*/true);
  };
  return op.hasPureBufferSemantics() && op.getNumDpsInits() == 1 &&
         op.getNumReductionLoops() == 0 && !op.hasIndexSemantics() &&
         op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isPermutation() &&
         llvm::all_of(op.getIndexingMapsArray(), isSimple);
}

/// The element-wise op that first reads `sum` after the contraction, if no
/// other op sees what the contraction wrote.
static linalg::GenericOp getOnlyReader(Operation *contraction, Value sum) {
  SmallVector<Operation *> later;
  for (Operation *user : sum.getUsers()) {
    if (user == contraction || isa<memref::DimOp, memref::DeallocOp>(user))
      continue;
    if (user->getBlock() != contraction->getBlock() ||
        isa<ViewLikeOpInterface>(user))
      return {};
    if (contraction->isBeforeInBlock(user))
      later.push_back(user);
  }
  if (later.empty())
    return {};
  Operation *first = *llvm::min_element(
      later, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  auto reader = dyn_cast<linalg::GenericOp>(first);
  if (!reader || !isElementwise(reader))
    return {};
  // Later ones read what it writes, if it writes there.
  bool overwrites = reader.getDpsInits()[0] == sum;
  if (!overwrites &&
      llvm::any_of(later, [&](Operation *op) { return op != first; }))
    return {};
  return reader;
}

std::optional<Epilogue> Epilogue::find(const Contraction &c) {
  Value sum = c.c.value;
  Value buffer = getBuffer(sum);
  linalg::GenericOp op = getOnlyReader(c.op, sum);
  if (!buffer || !op)
    return std::nullopt;
  Value result = op.getDpsInits()[0];
  // Without it C is as it was, so nobody may look at it later.
  if (result != sum && (!sum.getDefiningOp<memref::AllocOp>() ||
                        sum.getDefiningOp()->getBlock() != c.op->getBlock()))
    return std::nullopt;

  Epilogue epilogue;
  epilogue.op = op;
  AffineMap map, resultMap = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  Value resultBuffer = getBuffer(result);
  if (!resultBuffer || resultBuffer == getBuffer(c.a.value) ||
      resultBuffer == getBuffer(c.b.value))
    return std::nullopt;
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap current = op.getMatchingIndexingMap(&operand);
    if (operand.get() == sum &&
        (op.isDpsInput(&operand) || op.payloadUsesValueFromOperand(&operand))) {
      if (map && map != current)
        return std::nullopt;
      map = current;
      epilogue.sum = operand.getOperandNumber();
      continue;
    }
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    // In place is an element at a time, each read before it is written.
    Value other = getBuffer(operand.get());
    bool inPlace = operand.get() == result && current == resultMap;
    if (!other || (other == resultBuffer && !inPlace))
      return std::nullopt;
  }
  if (!map || !map.isPermutation() || (result == sum && map != resultMap))
    return std::nullopt;

  SmallVector<Value> read = {getBuffer(c.a.value), getBuffer(c.b.value)};
  if (!read[0] || !read[1])
    return std::nullopt;
  for (Operation *between = c.op->getNextNode(); between != op;
       between = between->getNextNode())
    if (!between || interferes(between, read, buffer))
      return std::nullopt;

  for (unsigned dim = 0; dim < op.getNumLoops(); ++dim) {
    unsigned position =
        *map.getResultPosition(getAffineDimExpr(dim, op.getContext()));
    epilogue.dims.push_back(c.c.map.getDimPosition(position));
  }
  return epilogue;
}

//===----------------------------------------------------------------------===//
// Applying it
//===----------------------------------------------------------------------===//

void ContractionEmitter::emitEpilogue(Value firstRow, Value endRow,
                                      Value firstCol, Value endCol) {
  linalg::GenericOp op = epilogue->op;
  Value one = constant(1);
  auto offsetOf = [&](unsigned dim) {
    return dim == c.row ? firstRow : dim == c.col ? firstCol : outer[dim];
  };
  auto sizeOf = [&](unsigned dim) {
    return dim == c.row   ? sub(endRow, firstRow)
           : dim == c.col ? sub(endCol, firstCol)
                          : one;
  };
  // The part of an operand that belongs to the task.
  auto part = [&](OpOperand &operand) -> Value {
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type)
      return operand.get();
    SmallVector<OpFoldResult> offsets, lengths;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (AffineExpr expr : map.getResults()) {
      if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
        unsigned loop = epilogue->dims[dim.getPosition()];
        offsets.push_back(getAsOpFoldResult(offsetOf(loop)));
        lengths.push_back(getAsOpFoldResult(sizeOf(loop)));
      } else {
        offsets.push_back(b.getIndexAttr(0));
        lengths.push_back(b.getIndexAttr(1));
      }
    }
    SmallVector<OpFoldResult> strides(offsets.size(), b.getIndexAttr(1));
    return memref::SubViewOp::create(b, operand.get(), offsets, lengths,
                                     strides);
  };
  // The scratch buffer in the shape of C, or C itself.
  OpOperand &sum = op->getOpOperand(epilogue->sum);
  AffineMap sumMap = op.getMatchingIndexingMap(&sum);
  Value sums;
  if (scratchC) {
    SmallVector<OpFoldResult> lengths, strides;
    for (AffineExpr expr : sumMap.getResults()) {
      unsigned loop = epilogue->dims[cast<AffineDimExpr>(expr).getPosition()];
      lengths.push_back(getAsOpFoldResult(sizeOf(loop)));
      strides.push_back(loop == c.row ? getAsOpFoldResult(scratchWidth)
                                      : OpFoldResult(b.getIndexAttr(1)));
    }
    sums = memref::ReinterpretCastOp::create(
        b, scratchC, OpFoldResult(b.getIndexAttr(0)), lengths, strides);
  } else {
    sums = part(sum);
  }

  // One more input than the op has: the sums, for whatever operands C was.
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (OpOperand *input : op.getDpsInputOperands()) {
    bool isSum = input->get() == sum.get();
    inputs.push_back(isSum ? sums : part(*input));
    maps.push_back(isSum ? sumMap : op.getMatchingIndexingMap(input));
  }
  inputs.push_back(sums);
  maps.push_back(sumMap);
  OpOperand &output = *op.getDpsInitOperand(0);
  maps.push_back(op.getMatchingIndexingMap(&output));
  linalg::GenericOp::create(
      b, b.getLoc(), inputs, part(output), maps, op.getIteratorTypesArray(),
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        IRMapping mapping;
        // Sums are rounded as they would be on the way to C.
        Value rounded = arguments[op.getNumDpsInputs()];
        if (rounded.getType() != c.c.elementType())
          rounded =
              arith::TruncFOp::create(builder, loc, c.c.elementType(), rounded);
        for (OpOperand &operand : op->getOpOperands())
          mapping.map(op.getMatchingBlockArgument(&operand),
                      operand.get() == sum.get() ? rounded
                      : op.isDpsInit(&operand)
                          ? arguments.back()
                          : arguments[operand.getOperandNumber()]);
        for (Operation &inner : op.getBody()->getOperations())
          builder.clone(inner, mapping);
      });
}
