//===- PackWeights.cpp - quantised weights in the layout kernels stream ---===//
//
// Enters: entry points whose weight arguments may carry `buddy.format`, layers
// outlined, element-wise ops fused. Leaves: each such weight that only
// contractions and element reads use as packed bytes, with `buddy.packing`; no
// `buddy.format` any more. A weight with another use keeps its type, and the
// writer of the weights file stores it so.
//
// A layer's function is called with many weights, and its argument is packed
// for all of them or for none: values that flow into one another are one class.
//
//===----------------------------------------------------------------------===//

#include "../Contraction/Contraction.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/bit.h"

namespace buddy {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

namespace {
/// What a format stores of each block of 32: see the GGUF specification
/// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). q8_0 is signed;
/// its elements are stored with 128 added.
struct Format {
  StringLiteral name;
  int64_t bits, zero;
  bool mins;
};
} // namespace

static constexpr Format kFormats[] = {
    {"q4_0", 4, 8, false}, {"q4_1", 4, 0, true}, {"q8_0", 8, 128, false}};
static constexpr int64_t kBlock = 32;

/// Elements of a 32-bit vector, and vectors of a panel. A scalable vector is
/// used at a fixed length, since a layout in a file cannot depend on it: four
/// registers of the shortest vectors (128 bits), as many as the register file
/// leaves room for.
static std::pair<int64_t, int64_t> panelVectors(const TargetInfo &target) {
  if (target.scalableVectors)
    return {4 * target.vectorLength(32) * 2, 1};
  return {std::max(1u, target.vectorLength(32)), 2};
}

/// The register tile: sums in i32 and in f32 of each row and vector, the
/// weight's vectors, its scales and minima.
static ScheduleAttr quantizedSchedule(PackingAttr packing,
                                      const TargetInfo &target) {
  auto [vl, nr] = panelVectors(target);
  int64_t registers = target.vectorRegisters;
  if (target.scalableVectors)
    registers /= 4;
  int64_t mr = std::max<int64_t>(1, (registers - 3 * nr) / (2 * nr));
  mr = llvm::bit_floor<uint64_t>(mr);
  // The rows of a task stay in the second-level cache while panels pass by.
  int64_t mc = llvm::bit_floor<uint64_t>(std::max<int64_t>(
      1, target.l2Bytes / 2 / std::max<int64_t>(packing.getK(), 1)));
  mc = std::clamp<int64_t>(mc, mr, 256) / mr * mr;
  return ScheduleAttr::get(packing.getContext(), mr, nr, vl, false, mc,
                           packing.getBlock(), 1, 0, 0, false);
}

/// The packing of a weight [n, k], or null if the format cannot hold it.
static PackingAttr choosePacking(MLIRContext *context, StringRef format,
                                 ArrayRef<int64_t> shape,
                                 const TargetInfo &target) {
  const Format *found = llvm::find_if(
      kFormats, [&](const Format &f) { return f.name == format; });
  if (found == std::end(kFormats) || shape.size() != 2 ||
      ShapedType::isDynamicShape(shape) || shape[1] % kBlock != 0)
    return {};
  auto [vl, vectors] = panelVectors(target);
  return PackingAttr::get(context, format, shape[0], shape[1], vl * vectors,
                          kBlock, found->bits, found->zero, found->mins,
                          target.hasFloat16Conversion() ? 16 : 32);
}

namespace {
/// The product `rows [.., k] x weight [n, k]` that a contraction is.
struct RowProduct {
  linalg::LinalgOp op;
  Value rows;
};
} // namespace

/// Matches a contraction in which the operand is a weight [n, k], the other one
/// has k as its last dimension, and the output n.
static std::optional<RowProduct> matchRowProduct(OpOperand &weight) {
  auto op = dyn_cast<linalg::LinalgOp>(weight.getOwner());
  if (!op || !op.hasPureTensorSemantics() || weight.getOperandNumber() > 1)
    return std::nullopt;
  Value rows = op->getOperand(1 - weight.getOperandNumber());
  if (rows == weight.get() || !Contraction::match(op))
    return std::nullopt;
  for (Value operand : op->getOperands())
    if (!isa<FloatType>(getElementTypeOrSelf(operand)))
      return std::nullopt;
  auto results = [&](unsigned operand) {
    return op.getIndexingMapsArray()[operand].getResults();
  };
  ArrayRef<AffineExpr> w = results(weight.getOperandNumber()),
                       x = results(1 - weight.getOperandNumber()),
                       c = results(2);
  if (w.size() != 2 || x.empty() || c.size() != x.size() ||
      op.getNumLoops() != x.size() + 1 || w[0] != c.back() ||
      w[1] != x.back() || x.drop_back() != c.drop_back())
    return std::nullopt;
  return RowProduct{op, rows};
}

/// Replaces the contraction by a product of quantised rows and the packed
/// weight, plus what the output held before.
static void rewriteProduct(RewriterBase &rewriter, RowProduct product,
                           Value weight, PackingAttr packing,
                           ScheduleAttr schedule) {
  linalg::LinalgOp op = product.op;
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  Value rows = product.rows, init = op.getDpsInits()[0];
  int64_t rank = cast<RankedTensorType>(rows.getType()).getRank();
  Type f32 = rewriter.getF32Type();
  // All leading dimensions are rows.
  SmallVector<ReassociationIndices> groups(2);
  for (int64_t i = 0; i + 1 < rank; ++i)
    groups[0].push_back(i);
  groups[1].push_back(rank - 1);
  if (rank > 2)
    rows = tensor::CollapseShapeOp::create(rewriter, loc, rows, groups);
  if (rank == 1)
    rows = tensor::ExpandShapeOp::create(
        rewriter, loc,
        RankedTensorType::get({1, packing.getK()}, getElementTypeOrSelf(rows)),
        rows, ArrayRef<ReassociationIndices>{{0, 1}});
  OpFoldResult m = tensor::getMixedSize(rewriter, loc, rows, 0);
  auto empty = [&](ArrayRef<OpFoldResult> sizes, Type type) -> Value {
    return tensor::EmptyOp::create(rewriter, loc, sizes, type);
  };
  OpFoldResult blocks = rewriter.getIndexAttr(packing.blocks());
  Value elements = empty({m, blocks, rewriter.getIndexAttr(packing.getBlock())},
                         rewriter.getI8Type());
  Value scales = empty({m, blocks}, f32);
  Value sums = empty({m, blocks}, rewriter.getI32Type());
  auto quantized = QuantizeOp::create(
      rewriter, loc,
      TypeRange{elements.getType(), scales.getType(), sums.getType()}, rows,
      elements, scales, sums);
  Value output = empty({m, rewriter.getIndexAttr(packing.getN())}, f32);
  auto matmul = QuantizedMatmulOp::create(
      rewriter, loc, TypeRange{output.getType()}, quantized.getResult(0),
      quantized.getResult(1), quantized.getResult(2), weight, output, packing);
  matmul->setAttr(kScheduleAttr, schedule);
  if (Attribute path = op->getAttr(kModuleAttr)) {
    quantized->setAttr(kModuleAttr, path);
    matmul->setAttr(kModuleAttr, path);
  }
  Value result = matmul.getResult(0);
  auto type = cast<RankedTensorType>(init.getType());
  auto wide = RankedTensorType::get(type.getShape(), f32);
  if (rank > 2)
    result = tensor::ExpandShapeOp::create(
        rewriter, loc, wide, result, groups,
        tensor::getMixedSizes(rewriter, loc, init));
  if (rank == 1)
    result = tensor::CollapseShapeOp::create(
        rewriter, loc, wide, result, ArrayRef<ReassociationIndices>{{0, 1}});
  auto fill = init.getDefiningOp<linalg::LinalgOp>();
  bool zero = fill && isZeroFill(fill);
  if (!zero || type != wide) {
    AffineMap map = rewriter.getMultiDimIdentityMap(type.getRank());
    SmallVector<Value> inputs = {result};
    if (!zero)
      inputs.push_back(init);
    Value destination = empty(tensor::getMixedSizes(rewriter, loc, init),
                              type.getElementType());
    auto convert = [](OpBuilder &b, Location loc, Value v, Type to) -> Value {
      if (v.getType() == to)
        return v;
      if (v.getType().getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
        return arith::ExtFOp::create(b, loc, to, v);
      return arith::TruncFOp::create(b, loc, to, v);
    };
    result = linalg::GenericOp::create(
                 rewriter, loc, type, inputs, destination,
                 SmallVector<AffineMap>(inputs.size() + 1, map),
                 SmallVector<utils::IteratorType>(
                     type.getRank(), utils::IteratorType::parallel),
                 [&](OpBuilder &b, Location loc, ValueRange args) {
                   Value sum = args[0];
                   if (!zero)
                     sum = arith::AddFOp::create(b, loc, sum,
                                                 convert(b, loc, args[1], f32));
                   linalg::YieldOp::create(
                       b, loc, convert(b, loc, sum, type.getElementType()));
                 })
                 .getResult(0);
  }
  rewriter.replaceOp(op, result);
}

namespace {
struct PackWeights : buddy::impl::PackWeightsBase<PackWeights> {
  /// Where values are one class they are packed alike or not at all.
  llvm::EquivalenceClasses<void *> classes;
  /// Values that hold a weight, in order of discovery: arguments, and tensors
  /// made of an entry's memrefs.
  llvm::SetVector<Value> values;
  DenseSet<Value> refused;
  DenseMap<Value, PackingAttr> roots;
  llvm::MapVector<StringRef, SmallVector<func::CallOp>> calls;

  void join(Value a, Value b) {
    classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }

  /// Follows one use; false if it needs the weight as it was.
  bool follow(OpOperand &use, SymbolTable &symbols) {
    Operation *user = use.getOwner();
    if (auto tensor = dyn_cast<bufferization::ToTensorOp>(user)) {
      values.insert(tensor.getResult());
      join(use.get(), tensor.getResult());
      return true;
    }
    if (auto call = dyn_cast<func::CallOp>(user)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || callee.isExternal() || callee->hasAttr(kEntryAttr))
        return false;
      Value argument = callee.getArgument(use.getOperandNumber());
      values.insert(argument);
      join(use.get(), argument);
      return true;
    }
    return isa<tensor::ExtractOp>(user) || matchRowProduct(use);
  }

  /// The packing of a value's class; null if it is not to be packed.
  PackingAttr packingOf(Value value) {
    PackingAttr packing;
    auto leader = classes.findLeader(value.getAsOpaquePointer());
    for (auto it = leader; it != classes.member_end(); ++it) {
      Value member = Value::getFromOpaquePointer(*it);
      if (refused.contains(member))
        return {};
      auto root = roots.find(member);
      if (root == roots.end())
        continue;
      if (!root->second || (packing && packing != root->second))
        return {};
      packing = root->second;
    }
    return packing;
  }

  void pack(RewriterBase &rewriter, Value value, PackingAttr packing,
            const TargetInfo &target) {
    Type i8 = rewriter.getI8Type();
    bool isMemref = isa<MemRefType>(value.getType());
    Type logical = getElementTypeOrSelf(value.getType());
    SmallVector<int64_t> shape = packing.storedShape();
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      if (auto product = matchRowProduct(use)) {
        rewriteProduct(rewriter, *product, value, packing,
                       quantizedSchedule(packing, target));
        continue;
      }
      auto extract = dyn_cast<tensor::ExtractOp>(use.getOwner());
      if (!extract)
        continue;
      rewriter.setInsertionPoint(extract);
      Value element = QuantizedElementOp::create(
          rewriter, extract.getLoc(), rewriter.getF32Type(), value,
          extract.getIndices()[0], extract.getIndices()[1], packing);
      if (logical.getIntOrFloatBitWidth() < 32)
        element = arith::TruncFOp::create(rewriter, extract.getLoc(), logical,
                                          element);
      else if (logical.getIntOrFloatBitWidth() > 32)
        element =
            arith::ExtFOp::create(rewriter, extract.getLoc(), logical, element);
      rewriter.replaceOp(extract, element);
    }
    value.setType(isMemref ? Type(MemRefType::get(shape, i8))
                           : Type(RankedTensorType::get(shape, i8)));
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return;
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    function.setType(rewriter.getFunctionType(
        function.getBody().getArgumentTypes(), function.getResultTypes()));
    if (!isMemref)
      return;
    unsigned i = argument.getArgNumber();
    function.setArgAttr(i, kPackingAttr, packing);
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
    for (auto entry : module.getOps<func::FuncOp>())
      for (BlockArgument argument : entry.getArguments()) {
        auto format = entry.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), kFormatAttr);
        auto type = dyn_cast<MemRefType>(argument.getType());
        if (!format || !type || !entry->hasAttr(kEntryAttr))
          continue;
        values.insert(argument);
        classes.insert(argument.getAsOpaquePointer());
        bool plain = isa<FloatType>(type.getElementType()) &&
                     type.getLayout().isIdentity();
        roots[argument] = plain ? choosePacking(&getContext(), format,
                                                type.getShape(), *target)
                                : PackingAttr();
        entry.removeArgAttr(argument.getArgNumber(), kFormatAttr);
      }
    for (size_t i = 0; i < values.size(); ++i) // Grows as uses are followed.
      for (OpOperand &use : values[i].getUses())
        if (!follow(use, symbols))
          refused.insert(values[i]);
    // A function's argument is a weight in every call, or it is none.
    for (Value value : values) {
      auto argument = dyn_cast<BlockArgument>(value);
      if (!argument || roots.contains(value))
        continue;
      auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
      for (func::CallOp call : calls[function.getSymName()])
        if (!values.contains(call.getOperand(argument.getArgNumber())))
          refused.insert(value);
    }
    IRRewriter rewriter(&getContext());
    llvm::MapVector<Value, PackingAttr> packings;
    for (Value value : values)
      if (PackingAttr packing = packingOf(value))
        packings[value] = packing;
    for (auto [value, packing] : packings)
      pack(rewriter, value, packing, *target);
    values.clear();
    classes = {};
    refused.clear();
    roots.clear();
    calls.clear();
  }
};
} // namespace
