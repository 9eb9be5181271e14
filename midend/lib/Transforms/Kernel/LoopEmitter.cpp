//===- LoopEmitter.cpp - loops of one linalg op on buffers ----------------===//

#include "LoopEmitter.h"

#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Remarks.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace buddy;

SmallVector<Value> LoopEmitter::indices(AffineMap map) {
  SmallVector<Value> result;
  for (AffineExpr expr : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      result.push_back(ivs[dim.getPosition()]);
    else if (auto number = dyn_cast<AffineConstantExpr>(expr))
      result.push_back(constant(number.getValue()));
    else {
      // Of loops that are still to be opened there is no variable.
      AffineMap part = AffineMap::get(map.getNumDims(), 0, expr);
      llvm::SmallBitVector unused = getUnusedDimsBitVector(part);
      SmallVector<Value> used;
      for (auto [dim, iv] : llvm::enumerate(ivs))
        if (!unused.test(dim))
          used.push_back(iv);
      result.push_back(affine::AffineApplyOp::create(
          builder, loc, compressDims(part, unused), used));
    }
  }
  return result;
}

bool LoopEmitter::isCarried(OpOperand &output) {
  AffineMap map = op.getMatchingIndexingMap(&output);
  return !reductions.empty() && llvm::none_of(reductions, [&](unsigned dim) {
    return map.isFunctionOfDim(dim);
  });
}

SmallVector<OpOperand *> LoopEmitter::carriedOutputs() {
  SmallVector<OpOperand *> result;
  for (OpOperand &output : op.getDpsInitsMutable())
    if (isCarried(output))
      result.push_back(&output);
  return result;
}

SmallVector<Value> LoopEmitter::point(ValueRange carried, const Step &step) {
  SmallVector<Value> accumulators;
  for (OpOperand &output : op.getDpsInitsMutable()) {
    if (isCarried(output)) {
      accumulators.push_back(carried.front());
      carried = carried.drop_front();
    } else {
      // An element that the body does not use is not read.
      bool used = !op.getMatchingBlockArgument(&output).use_empty();
      accumulators.push_back(used ? load(output, step) : Value());
    }
  }
  SmallVector<Value> results;
  for (auto [output, value] :
       llvm::zip(op.getDpsInitsMutable(), body(accumulators, step))) {
    if (isCarried(output)) {
      results.push_back(value);
      continue;
    }
    store(value, output, step);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

bool LoopEmitter::usesFloat16() {
  auto isHalf = [](Type type) { return getElementTypeOrSelf(type).isF16(); };
  if (llvm::any_of(op->getOperandTypes(), isHalf))
    return true;
  return llvm::any_of(op->getRegion(0).front(), [&](Operation &inner) {
    return llvm::any_of(inner.getResultTypes(), isHalf);
  });
}

VectorType LoopEmitter::chooseVector(unsigned dim, bool outputs) {
  scalarReason = obstacle(dim, outputs);
  if (!scalarReason.empty())
    return {};
  // As many lanes as fit of the widest element in memory; wider values inside
  // (indices) take several registers.
  unsigned bits = 8;
  auto count = [&](Type element) {
    if (element.isIntOrFloat())
      bits = std::max(bits, element.getIntOrFloatBitWidth());
  };
  for (OpOperand &operand : op->getOpOperands())
    if (!isa<MemRefType>(operand.get().getType()) ||
        op.getMatchingIndexingMap(&operand).isFunctionOfDim(dim))
      count(getElementTypeOrSelf(operand.get().getType()));
  // Narrow floats are computed in f32.
  LaneMap lanesOfValues = classify(dim);
  for (Operation &inner : op->getRegion(0).front().without_terminator())
    for (Value v : inner.getResults())
      if (isa<FloatType>(v.getType()) ||
          (isa<memref::LoadOp>(inner) &&
           lanesOf(lanesOfValues, v) != Lanes::Same))
        count(v.getType());
  if (!target.hasFloat16Vectors() && usesFloat16()) {
    scalarReason = "the target has no vectors of f16";
    return {};
  }
  int64_t lanes = target.vectorLength(bits);
  if (target.scalableVectors)
    lanes *= 2; // Register groups of two: fewer, longer steps.
  if (lanes < 2) {
    scalarReason = "a vector register holds one element";
    return {};
  }
  return VectorType::get({lanes}, builder.getI8Type(),
                         {target.scalableVectors});
}

bool LoopEmitter::mayMask() {
  // Lanes that do not exist hold zeros, by which no integer may be divided, and
  // what the body reads at computed places may not be there for them.
  // Bits lie in bytes, of which masks know nothing.
  return target.hasMasks() &&
         llvm::none_of(op->getOperands(),
                       [](Value v) {
                         return getElementTypeOrSelf(v.getType()).isInteger(1);
                       }) &&
         llvm::none_of(op->getRegion(0).front(), [](Operation &inner) {
           return isa<memref::LoadOp, arith::DivSIOp, arith::DivUIOp,
                      arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp,
                      arith::CeilDivUIOp, arith::FloorDivSIOp>(inner);
         });
}

Value LoopEmitter::vectorSize(VectorType type) {
  Value lanes = constant(type.getDimSize(0));
  if (!type.isScalable())
    return lanes;
  return arith::MulIOp::create(
      builder, loc, vector::VectorScaleOp::create(builder, loc), lanes);
}

Operation *LoopEmitter::combinerOf(OpOperand &output) {
  unsigned i = op.getMatchingBlockArgument(&output).getArgNumber() -
               op.getNumDpsInputs();
  SmallVector<Operation *> chain;
  bool single =
      matchReduction(op.getRegionOutputArgs(), i, chain) && chain.size() == 1;
  return single ? chain.front() : nullptr;
}

std::optional<SmallVector<vector::CombiningKind>> LoopEmitter::combiners() {
  SmallVector<vector::CombiningKind> kinds;
  for (OpOperand *output : carriedOutputs()) {
    Operation *combiner = combinerOf(*output);
    auto kind = combiner ? linalg::getCombinerOpKind(combiner) : std::nullopt;
    if (!kind || !arith::getNeutralElement(combiner))
      return std::nullopt;
    kinds.push_back(*kind);
  }
  return kinds;
}

SmallVector<Value> LoopEmitter::neutralElements(const Step &step) {
  SmallVector<Value> result;
  for (OpOperand *output : carriedOutputs()) {
    TypedAttr attr = *arith::getNeutralElement(combinerOf(*output));
    Value scalar = arith::ConstantOp::create(builder, loc, attr);
    result.push_back(broadcast(scalar, step));
  }
  return result;
}

std::pair<SmallVector<Value>, Value>
LoopEmitter::emitVectorReduction(unsigned dim, ValueRange accumulators) {
  VectorType shape = chooseVector(dim);
  auto kinds = shape ? combiners() : std::nullopt;
  if (!kinds) {
    if (shape)
      scalarReason = "what combines the elements is no known reduction";
    return {SmallVector<Value>(accumulators), constant(0)};
  }

  Step step{shape, dim, Value()};
  Value lanes = vectorSize(shape), zero = constant(0);
  SmallVector<Value> init = neutralElements(step);
  // Several independent accumulators, then single vectors.
  auto loop = [&](Value lower, Value upper, int64_t unroll,
                  ArrayRef<Value> start) {
    Value stride = arith::MulIOp::create(builder, loc, lanes, constant(unroll));
    auto made = scf::ForOp::create(builder, loc, lower, upper, stride, start);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    SmallVector<Value> next;
    size_t outputs = kinds->size();
    Value iv = made.getInductionVar();
    for (int64_t u = 0; u < unroll; ++u) {
      ivs[dim] = u == 0 ? iv
                        : arith::AddIOp::create(builder, loc, ivs[dim], lanes)
                              .getResult();
      llvm::append_range(
          next,
          point(made.getRegionIterArgs().slice(u * outputs, outputs), step));
    }
    scf::YieldOp::create(builder, loc, next);
    return made;
  };
  auto wholeSteps = [&](Value stride) {
    Value rest = arith::RemUIOp::create(builder, loc, sizes[dim], stride);
    return arith::SubIOp::create(builder, loc, sizes[dim], rest).getResult();
  };
  // An accumulator and what is added to it take a register each.
  int64_t sums = std::clamp<int64_t>(
      target.vectorRegisters / (2 * kinds->size()), 1, target.accumulators());
  SmallVector<Value> many;
  for (int64_t u = 0; u < sums; ++u)
    llvm::append_range(many, init);
  Value end4 =
      wholeSteps(arith::MulIOp::create(builder, loc, lanes, constant(sums)));
  auto unrolled = loop(zero, end4, sums, many);
  SmallVector<Value> partial;
  for (size_t i = 0; i < kinds->size(); ++i) {
    Value sum = unrolled.getResult(i);
    for (int64_t u = 1; u < sums; ++u)
      sum =
          vector::makeArithReduction(builder, loc, (*kinds)[i], sum,
                                     unrolled.getResult(u * kinds->size() + i));
    partial.push_back(sum);
  }
  Value end = wholeSteps(lanes);
  auto single = loop(end4, end, 1, partial);
  SmallVector<Value> results;
  for (size_t i = 0; i < kinds->size(); ++i)
    results.push_back(vector::ReductionOp::create(
        builder, loc, (*kinds)[i], single.getResult(i), accumulators[i],
        arith::FastMathFlags::reassoc));
  return {results, end};
}

std::pair<SmallVector<Value>, Value>
LoopEmitter::emitInterleavedReduction(unsigned dim, ValueRange accumulators,
                                      const Step &step) {
  auto kinds = combiners();
  size_t outputs = accumulators.size();
  int64_t sums =
      std::clamp<int64_t>(target.vectorRegisters / (2 * outputs), 1, 16);
  int64_t size = op.getStaticLoopRanges()[dim];
  if (!kinds || (!ShapedType::isDynamic(size) && size < 2 * sums))
    return {SmallVector<Value>(accumulators), constant(0)};
  SmallVector<Value> init = neutralElements(step), start;
  for (int64_t u = 0; u < sums; ++u)
    llvm::append_range(start, init);
  Value stride = constant(sums);
  Value rest = arith::RemUIOp::create(builder, loc, sizes[dim], stride);
  Value end = arith::SubIOp::create(builder, loc, sizes[dim], rest);
  auto loop = scf::ForOp::create(builder, loc, constant(0), end, stride, start);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> next;
    for (int64_t u = 0; u < sums; ++u) {
      ivs[dim] = builder.createOrFold<arith::AddIOp>(
          loc, loop.getInductionVar(), constant(u));
      llvm::append_range(
          next,
          point(loop.getRegionIterArgs().slice(u * outputs, outputs), step));
    }
    scf::YieldOp::create(builder, loc, next);
  }
  SmallVector<Value> results;
  for (size_t i = 0; i < outputs; ++i) {
    Value sum = accumulators[i];
    for (int64_t u = 0; u < sums; ++u)
      sum = vector::makeArithReduction(builder, loc, (*kinds)[i], sum,
                                       loop.getResult(u * outputs + i));
    results.push_back(sum);
  }
  return {results, end};
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> LoopEmitter::emitReductions(ArrayRef<unsigned> dims,
                                               ValueRange accumulators,
                                               const Step &step) {
  if (dims.empty())
    return point(accumulators, step);
  unsigned dim = dims.front();
  SmallVector<Value> start(accumulators);
  Value lower = constant(0);
  IRMapping outer = hoisted;
  auto restore = llvm::scope_exit([&] { hoisted = std::move(outer); });
  if (dims.size() == 1) {
    SmallVector<unsigned> inside{dim};
    if (step.shape)
      inside.push_back(step.dim);
    hoist(inside);
    std::tie(start, lower) =
        step.shape ? emitInterleavedReduction(dim, accumulators, step)
                   : emitVectorReduction(dim, accumulators);
  }
  auto loop =
      scf::ForOp::create(builder, loc, lower, sizes[dim], constant(1), start);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  ivs[dim] = loop.getInductionVar();
  SmallVector<Value> results =
      emitReductions(dims.drop_front(), loop.getRegionIterArgs(), step);
  scf::YieldOp::create(builder, loc, results);
  return SmallVector<Value>(loop.getResults());
}

void LoopEmitter::emitPoint(const Step &step) {
  if (reductions.empty()) {
    point({}, step);
    return;
  }
  SmallVector<OpOperand *> outputs = carriedOutputs();
  SmallVector<Value> accumulators;
  for (OpOperand *output : outputs)
    accumulators.push_back(load(*output, step));
  SmallVector<Value> results = emitReductions(reductions, accumulators, step);
  for (auto [output, value] : llvm::zip(outputs, results))
    store(value, *output, step);
}

bool LoopEmitter::movesAll(unsigned dim) {
  return llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &output) {
    return op.getMatchingIndexingMap(&output).isFunctionOfDim(dim);
  });
}

bool LoopEmitter::reducesColumns(unsigned dim) {
  if (reductions.empty() || !movesAll(dim) ||
      !llvm::all_of(op.getDpsInitsMutable(),
                    [&](OpOperand &output) { return isCarried(output); }))
    return false;
  VectorType columns = chooseVector(dim);
  if (!columns)
    return false;
  unsigned inner = reductions.back();
  int64_t size = op.getStaticLoopRanges()[inner];
  bool isShort = !ShapedType::isDynamic(size) && size < columns.getDimSize(0);
  return isShort || !chooseVector(inner) || !combiners() ||
         (gathers(inner) && !gathers(dim));
}

void LoopEmitter::emitInnermost(unsigned dim, Value lower, Value upper) {
  auto loop = [&](Value from, Value to, Value stride, const Step &step) {
    auto made = scf::ForOp::create(builder, loc, from, to, stride);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    ivs[dim] = made.getInductionVar();
    emitPoint(step);
  };
  // Every output must move along the vector. A reduction's inner loops are
  // vectorized instead where that is possible.
  bool moves = (reductions.empty() || reducesColumns(dim)) && movesAll(dim);
  if (reductions.empty() && !moves)
    scalarReason = "an output stays at one element in the innermost loop";
  SmallVector<unsigned> inside(reductions);
  inside.push_back(dim);
  IRMapping outer = hoisted;
  auto restore = llvm::scope_exit([&] { hoisted = std::move(outer); });
  hoist(inside);
  if (VectorType shape = moves ? chooseVector(dim) : VectorType()) {
    Value lanes = vectorSize(shape);
    Value count = builder.createOrFold<arith::SubIOp>(loc, upper, lower);
    Value rest = arith::RemUIOp::create(builder, loc, count, lanes);
    Value end = arith::SubIOp::create(builder, loc, upper, rest);
    loop(lower, end, lanes, Step{shape, dim, Value()});
    bool masked = mayMask();
    if (masked) {
      Value mask = vector::CreateMaskOp::create(
          builder, loc, shape.clone(builder.getI1Type()), rest);
      loop(end, upper, lanes, Step{shape, dim, mask});
    }
    // Of a rest that is known to be long, narrower vectors.
    std::optional<int64_t> known = getConstantIntValue(count);
    if (!masked && known && reductions.empty() && !shape.isScalable())
      for (int64_t half = shape.getDimSize(0) / 2; half >= 4; half /= 2) {
        if (!(*known & half))
          continue;
        Value next = arith::AddIOp::create(builder, loc, end, constant(half));
        loop(end, next, constant(half),
             Step{VectorType::get({half}, builder.getI8Type()), dim, Value()});
        end = next;
      }
    if (!masked)
      loop(end, upper, constant(1), Step());
    scalarReason.clear(); // The rest of the elements has nothing to say.
    return;
  }
  loop(lower, upper, constant(1), Step());
}

void LoopEmitter::emitParallel(ArrayRef<unsigned> dims) {
  if (dims.empty())
    return emitPoint(Step());
  if (dims.size() == 2 && interleaves(dims))
    return emitInterleaved(dims.front(), dims.back(), constant(0),
                           sizes[dims.front()]);
  if (dims.size() == 1)
    return emitInnermost(dims.front(), constant(0), sizes[dims.front()]);
  auto loop = scf::ForOp::create(builder, loc, constant(0), sizes[dims.front()],
                                 constant(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  ivs[dims.front()] = loop.getInductionVar();
  emitParallel(dims.drop_front());
}

void LoopEmitter::reportScalar() {
  auto isFloat = [](Type type) {
    return isa<FloatType, ComplexType>(getElementTypeOrSelf(type));
  };
  Block &block = op->getRegion(0).front();
  bool floats = llvm::any_of(op->getOperandTypes(), isFloat);
  llvm::SetVector<StringRef> names;
  for (Operation &inner : block.without_terminator()) {
    floats |= llvm::any_of(inner.getResultTypes(), isFloat);
    if (!inner.hasTrait<OpTrait::ConstantLike>())
      names.insert(inner.getName().getStringRef());
  }
  bool repeats = llvm::any_of(op.getStaticLoopRanges(),
                              [](int64_t size) { return size != 1; });
  if (scalarReason.empty() || !floats || !repeats)
    return;
  remark::missed(loc, remarkOptions("scalar-loop", op))
      << remark::metric("reason", scalarReason)
      << remark::metric("body", names.empty() ? std::string("copy")
                                              : llvm::join(names, ", "));
}

void LoopEmitter::emit() {
  emitLoops();
  reportScalar();
}

/// Elements, or terms of sums, that are worth a task of their own.
static constexpr int64_t kShortTask = 2048;

void LoopEmitter::emitLoops() {
  SmallVector<Range> ranges = op.createLoopRanges(builder, loc);
  SmallVector<unsigned> parallel;
  for (auto [dim, type] : llvm::enumerate(op.getIteratorTypesArray()))
    (type == utils::IteratorType::parallel ? parallel : reductions)
        .push_back(dim);
  ivs.resize(ranges.size());
  Value work = constant(std::max<size_t>(
      1, llvm::range_size(op->getRegion(0).front().without_terminator())));
  for (Range &range : ranges) {
    sizes.push_back(getValueOrCreateConstantIndexOp(builder, loc, range.size));
    work = builder.createOrFold<arith::MulIOp>(loc, work, sizes.back());
  }
  if (parallel.empty())
    return emitPoint(Step());
  // Outputs are contiguous along the last parallel dimension as a rule.
  if (reductions.empty()) {
    unsigned inner = chooseInnermost(parallel);
    parallel.erase(llvm::find(parallel, inner));
    parallel.push_back(inner);
  }
  // In a sequential loop a region would be opened each time, for nothing where
  // it is small.
  std::optional<int64_t> knownWork = getConstantIntValue(work);
  if (knownWork && *knownWork < target.parallelGrain &&
      op->getParentOfType<LoopLikeOpInterface>())
    return emitParallel(parallel);
  if (emitTiles(parallel, work))
    return;
  // Part of a parallel loop's task: on the thread that runs it.
  if (op->getParentOfType<omp::ParallelOp>())
    return emitParallel(parallel);

  // It stays inside for vectors, unless rows are reduced inside it.
  ArrayRef<unsigned> dims = parallel;
  bool isInterleaved = interleaves(dims);
  if ((dims.size() == 1 &&
       (reductions.empty() || reducesColumns(dims.front()))) ||
      (dims.size() == 2 && isInterleaved)) {
    unsigned dim = dims.front();
    // So many f32 fill half of the first-level cache; of columns that are
    // summed a few cache lines are work enough.
    int64_t elements =
        reductions.empty() ? target.l1Bytes / 2 / sizeof(float) : 64;
    if (isInterleaved)
      elements /= op.getStaticLoopRanges()[dims.back()];
    Value chunk = constant(elements);
    createParallelLoop(
        builder, loc, constant(0), sizes[dim], chunk, work,
        [&](OpBuilder &, Location, ValueRange starts) {
          Value left =
              arith::SubIOp::create(builder, loc, sizes[dim], starts[0]);
          Value count = arith::MinSIOp::create(builder, loc, left, chunk);
          Value end = arith::AddIOp::create(builder, loc, starts[0], count);
          if (isInterleaved)
            emitInterleaved(dim, dims.back(), starts[0], end);
          else
            emitInnermost(dim, starts[0], end);
        });
    return;
  }
  bool inside = reductions.empty() || reducesColumns(dims.back());
  size_t outer = inside ? dims.size() - 1 : dims.size();
  if (isInterleaved)
    outer = dims.size() - 2;
  // A task finds its place in several dimensions by divisions. Short ones take
  // more of the loops along, as long as there are tasks enough.
  SmallVector<int64_t> known = op.getStaticLoopRanges();
  auto product = [&](ArrayRef<unsigned> some) {
    int64_t count = 1;
    for (unsigned dim : some)
      count = ShapedType::isDynamic(known[dim]) || count < 0
                  ? -1
                  : count * known[dim];
    return count;
  };
  while (outer > 1) {
    int64_t tasks = product(dims.take_front(outer - 1));
    int64_t inner = product(dims.drop_front(outer)),
            terms = product(reductions);
    if (tasks < target.parallelTasks || inner < 0 || terms < 0 ||
        inner * terms >= kShortTask)
      break;
    --outer;
  }
  SmallVector<Value> lower(outer, constant(0)), steps(outer, constant(1)),
      upper;
  for (unsigned dim : dims.take_front(outer))
    upper.push_back(sizes[dim]);
  createParallelLoop(builder, loc, lower, upper, steps, work,
                     [&](OpBuilder &, Location, ValueRange outerIvs) {
                       for (auto [dim, iv] : llvm::zip(dims, outerIvs))
                         ivs[dim] = iv;
                       emitParallel(dims.drop_front(outer));
                     });
}
