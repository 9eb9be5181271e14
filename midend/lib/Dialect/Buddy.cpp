//===- Buddy.cpp - the buddy dialect --------------------------------------===//

#include "buddy/Dialect/Buddy.h"

#include "buddy/Runtime/Array.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace buddy;

#include "buddy/Dialect/BuddyDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "buddy/Dialect/BuddyAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "buddy/Dialect/BuddyOps.cpp.inc"

void BuddyDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "buddy/Dialect/BuddyOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "buddy/Dialect/BuddyAttrs.cpp.inc"
      >();
}

void buddy::registerBuddyDialect(DialectRegistry &registry) {
  registry.insert<BuddyDialect>();
}

LogicalResult
ScheduleAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                     int64_t mr, int64_t nr, int64_t vl, bool scalable,
                     int64_t mc, int64_t kc, int64_t ku, int64_t dotM,
                     int64_t packM, bool pairs, int64_t tileM) {
  if (mr < 1 || nr < 1 || ku < 1 || mr * nr * ku > 1024)
    return emitError() << "schedule needs mr, nr and ku of at least 1 and a "
                          "product of at most 1024";
  if (vl < 1 || vl > 1024 || !llvm::isPowerOf2_64(vl))
    return emitError() << "schedule needs vl a power of two up to 1024";
  if (mc < 1 || mc % mr != 0)
    return emitError() << "schedule needs mc a multiple of mr";
  if (kc < 1 || kc % vl != 0)
    return emitError() << "schedule needs kc a multiple of vl";
  // The lengths of x86's instruction.
  if (pairs && (scalable || (vl != 4 && vl != 8 && vl != 16) || kc % 2 != 0 ||
                kc % (2 * vl) != 0))
    return emitError() << "schedule needs vl of 4, 8 or 16, not scalable, and "
                          "kc a multiple of 2 * vl for pairs";
  if (dotM < 0 || packM < 0)
    return emitError() << "schedule needs dot_m and pack_m of at least 0";
  if (tileM < 0 ||
      (tileM > 0 && (scalable || vl != 16 || kc % 32 != 0 || mc % 32 != 0)))
    return emitError() << "schedule needs vl of 16, not scalable, kc and mc "
                          "multiples of 32 for tile_m";
  // Buffers of a panel, of its rows of A and of its results are on the stack.
  if ((kc + mc) * nr * vl + mr * kc > (1 << 18))
    return emitError() << "schedule needs (kc + mc) * nr * vl + mr * kc of at "
                          "most 262144 elements";
  return success();
}

/// True unless both sizes are static and differ.
static bool mayEqual(int64_t a, int64_t b) {
  return ShapedType::isDynamic(a) || ShapedType::isDynamic(b) || a == b;
}

/// The effects of a destination-style op on buffers.
static void
getBufferEffects(DestinationStyleOpInterface op,
                 SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (op.isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
  }
}

/// Checks the operands that both forms of attention have; `o` is the result's
/// type or the destination's.
static LogicalResult verifyAttention(Operation *op, ShapedType q, ShapedType k,
                                     ShapedType v, ShapedType mask,
                                     ShapedType o, StringRef causal) {
  int64_t rank = q.getRank();
  if (rank < 3 || k.getRank() != rank || v.getRank() != rank ||
      o.getRank() != rank)
    return op->emitOpError(
        "needs query, key, value and result of one rank >= 3");
  if (q.getElementType() != k.getElementType() ||
      q.getElementType() != v.getElementType() ||
      q.getElementType() != o.getElementType())
    return op->emitOpError("needs one element type");
  for (int64_t i = 0; i < rank - 3; ++i)
    if (!mayEqual(q.getDimSize(i), k.getDimSize(i)) ||
        !mayEqual(q.getDimSize(i), v.getDimSize(i)))
      return op->emitOpError("batch dimension ") << i << " differs";
  int64_t hq = q.getDimSize(rank - 3), hkv = k.getDimSize(rank - 3);
  if (ShapedType::isDynamic(hq) || ShapedType::isDynamic(hkv) || hkv == 0 ||
      hq % hkv != 0)
    return op->emitOpError("needs static head counts, query heads a multiple "
                           "of key heads");
  if (v.getDimSize(rank - 3) != hkv)
    return op->emitOpError("key and value heads differ");
  if (!mayEqual(q.getDimSize(rank - 1), k.getDimSize(rank - 1)))
    return op->emitOpError("head dimension of query and key differ");
  if (!mayEqual(k.getDimSize(rank - 2), v.getDimSize(rank - 2)))
    return op->emitOpError("key and value lengths differ");
  if (!mayEqual(q.getDimSize(rank - 2), o.getDimSize(rank - 2)) ||
      !mayEqual(v.getDimSize(rank - 1), o.getDimSize(rank - 1)) ||
      o.getDimSize(rank - 3) != hq)
    return op->emitOpError("result shape does not fit");
  if (!llvm::is_contained({"none", "top_left", "bottom_right"}, causal))
    return op->emitOpError("causal must be none, top_left or bottom_right");
  if (mask && mask.getRank() > rank)
    return op->emitOpError("mask has more dimensions than the query");
  return success();
}

static ShapedType shapedType(Value value) {
  return value ? cast<ShapedType>(value.getType()) : ShapedType();
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, shapedType(getQuery()), shapedType(getKey()),
                         shapedType(getValue()), shapedType(getMask()),
                         shapedType(getResult()), getCausal());
}

LogicalResult AttentionIntoOp::verify() {
  return verifyAttention(*this, shapedType(getQuery()), shapedType(getKey()),
                         shapedType(getValue()), shapedType(getMask()),
                         shapedType(getInit()), getCausal());
}

void AttentionIntoOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  getBufferEffects(*this, effects);
}

LogicalResult SoftmaxOp::verify() {
  int64_t rank = cast<RankedTensorType>(getInput().getType()).getRank();
  if (getDim() >= uint64_t(rank))
    return emitOpError("dim ") << getDim() << " out of range for rank " << rank;
  return success();
}

/// Checks a norm's `dims`, result type and parameters, which have the shape of
/// the trailing dimensions.
static LogicalResult verifyNorm(Operation *op, Value input, Value result,
                                int64_t dims, ValueRange parameters) {
  auto type = cast<RankedTensorType>(input.getType());
  if (result.getType() != type)
    return op->emitOpError("result and input types differ");
  if (dims < 1 || dims > type.getRank())
    return op->emitOpError("dims must be in [1, rank]");
  for (Value p : parameters) {
    auto pt = cast<RankedTensorType>(p.getType());
    if (pt.getRank() != dims)
      return op->emitOpError("parameters must have rank ") << dims;
    for (int64_t i = 0; i < dims; ++i)
      if (!mayEqual(pt.getDimSize(i),
                    type.getDimSize(type.getRank() - dims + i)))
        return op->emitOpError("parameter shape does not fit the input");
  }
  return success();
}

LogicalResult RMSNormOp::verify() {
  SmallVector<Value> parameters;
  if (getWeight())
    parameters.push_back(getWeight());
  return verifyNorm(*this, getInput(), getResult(), getDims(), parameters);
}

LogicalResult LayerNormOp::verify() {
  if (getParameters().size() != size_t(getHasWeight()) + size_t(getHasBias()))
    return emitOpError("parameters do not fit has_weight and has_bias");
  return verifyNorm(*this, getInput(), getResult(), getDims(), getParameters());
}

LogicalResult
PackingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                    llvm::StringRef, int64_t n, int64_t k, int64_t panel,
                    int64_t block, int64_t bits, int64_t zero, bool,
                    int64_t scaleBits) {
  if (n < 0 || k < 0)
    return emitError() << "packing needs n and k of at least 0";
  if (panel < 1 || panel > 4096)
    return emitError() << "packing needs a panel of 1 to 4096 rows";
  if (block < 8 || block > 4096 || block % 8 != 0 || k % block != 0)
    return emitError() << "packing needs a block that is a multiple of 8, at "
                          "most 4096, and divides k";
  if (bits != 4 && bits != 8)
    return emitError() << "packing needs bits of 4 or 8";
  if (zero < 0 || zero >= (int64_t(1) << bits))
    return emitError() << "packing needs a zero that fits in its bits";
  if (scaleBits != 16 && scaleBits != 32)
    return emitError() << "packing needs scale_bits of 16 or 32";
  return success();
}

LogicalResult
PanelsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   int64_t n, int64_t k, int64_t width, int64_t unit, bool) {
  if (n < 0 || k < 0)
    return emitError() << "panels need n and k of at least 0";
  if (width < 1 || width > 4096)
    return emitError() << "panels need a width of 1 to 4096";
  if (unit != 1 && unit != 2)
    return emitError() << "panels need a unit of 1 or 2";
  return success();
}

SmallVector<AffineExpr> PanelsAttr::index(AffineExpr n, AffineExpr k) const {
  if (getUnit() == 1)
    return {n.floorDiv(getWidth()), k, n % getWidth()};
  return {n.floorDiv(getWidth()), k.floorDiv(getUnit()), n % getWidth(),
          k % getUnit()};
}

LogicalResult
WindowsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                    ArrayRef<int64_t> image, ArrayRef<int64_t> kernel,
                    ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations) {
  if (image.empty() || image.size() != kernel.size() ||
      image.size() != strides.size() || image.size() != dilations.size())
    return emitError() << "windows need an entry of each list a dimension";
  for (ArrayRef<int64_t> list : {image, kernel, strides, dilations})
    if (llvm::any_of(list, [](int64_t n) { return n < 1; }))
      return emitError() << "windows need numbers of at least 1";
  return success();
}

/// The digits of `number`, all but the first less than their base.
static SmallVector<AffineExpr> digits(AffineExpr number,
                                      ArrayRef<int64_t> bases) {
  SmallVector<AffineExpr> result(bases.size());
  for (size_t i = bases.size(); i-- > 1;) {
    result[i] = number % bases[i];
    number = number.floorDiv(bases[i]);
  }
  result[0] = number;
  return result;
}

SmallVector<AffineExpr> WindowsAttr::index(AffineExpr col,
                                           AffineExpr red) const {
  SmallVector<AffineExpr> at = {red.floorDiv(places())};
  SmallVector<AffineExpr> points = digits(col, getImage());
  SmallVector<AffineExpr> taps = digits(red % places(), getKernel());
  for (auto [point, tap, stride, dilation] :
       llvm::zip(points, taps, getStrides(), getDilations()))
    at.push_back(point * stride + tap * dilation);
  return at;
}

int64_t WindowsAttr::segments(int64_t count) const {
  int64_t length = getImage().back(), most = 1;
  if (getImage().size() == 1)
    return 1;
  for (int64_t start = count % length, first = 0; first < length;
       start = (start + count) % length, ++first)
    most = std::max(most, (start + count - 1) / length + 1);
  return most;
}

/// Tensors with a result for each destination, or buffers without results.
static LogicalResult verifyDestinations(DestinationStyleOpInterface op) {
  bool tensors = isa<TensorType>(op.getDpsInits().front().getType());
  for (Value operand : op->getOperands())
    if (isa<ShapedType>(operand.getType()) &&
        isa<TensorType>(operand.getType()) != tensors)
      return op->emitOpError("mixes tensors and buffers");
  if (op->getNumResults() != (tensors ? op.getNumDpsInits() : 0))
    return op->emitOpError("needs a result for each destination on tensors, "
                           "none on buffers");
  for (auto [result, init] : llvm::zip(op->getResults(), op.getDpsInits()))
    if (result.getType() != init.getType())
      return op->emitOpError("types of results and destinations differ");
  return success();
}

static LogicalResult verifyShape(Operation *op, Value value, StringRef what,
                                 ArrayRef<int64_t> expected) {
  ArrayRef<int64_t> shape = cast<ShapedType>(value.getType()).getShape();
  if (shape.size() != expected.size() ||
      !llvm::all_of(llvm::zip(shape, expected), [](auto p) {
        return mayEqual(std::get<0>(p), std::get<1>(p));
      }))
    return op->emitOpError("shape of the ") << what << " does not fit";
  return success();
}

void QuantizeOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  getBufferEffects(*this, effects);
}

LogicalResult QuantizeOp::verify() {
  if (failed(verifyDestinations(*this)))
    return failure();
  auto elements = cast<ShapedType>(getElements().getType());
  if (cast<ShapedType>(getInput().getType()).getRank() != 2 ||
      elements.getRank() != 3 || elements.isDynamicDim(2) ||
      elements.getDimSize(2) < 1)
    return emitOpError("needs rows [M, K] and elements [M, K / block, block] "
                       "with a static block");
  int64_t m = elements.getDimSize(0), blocks = elements.getDimSize(1);
  int64_t k = ShapedType::isDynamic(blocks) ? ShapedType::kDynamic
                                            : blocks * elements.getDimSize(2);
  if (failed(verifyShape(*this, getInput(), "input", {m, k})) ||
      failed(verifyShape(*this, getScales(), "scales", {m, blocks})))
    return failure();
  return verifyShape(*this, getSums(), "sums", {m, blocks});
}

void QuantizedMatmulOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  getBufferEffects(*this, effects);
}

LogicalResult QuantizedMatmulOp::verify() {
  if (failed(verifyDestinations(*this)))
    return failure();
  PackingAttr packing = getPacking();
  int64_t m = cast<ShapedType>(getElements().getType()).getDimSize(0);
  int64_t blocks = packing.blocks();
  if (failed(verifyShape(*this, getElements(), "elements",
                         {m, blocks, packing.getBlock()})) ||
      failed(verifyShape(*this, getScales(), "scales", {m, blocks})) ||
      failed(verifyShape(*this, getSums(), "sums", {m, blocks})) ||
      failed(verifyShape(*this, getWeight(), "weight", packing.storedShape())))
    return failure();
  return verifyShape(*this, getOutput(), "output", {m, packing.getN()});
}

void DequantizedMatmulOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  getBufferEffects(*this, effects);
}

LogicalResult DequantizedMatmulOp::verify() {
  if (failed(verifyDestinations(*this)))
    return failure();
  PackingAttr packing = getPacking();
  int64_t m = cast<ShapedType>(getRows().getType()).getDimSize(0);
  if (failed(verifyShape(*this, getRows(), "rows", {m, packing.getK()})) ||
      failed(verifyShape(*this, getWeight(), "weight", packing.storedShape())))
    return failure();
  return verifyShape(*this, getOutput(), "output", {m, packing.getN()});
}

void QuantizedElementOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (isa<MemRefType>(getWeight().getType()))
    effects.emplace_back(MemoryEffects::Read::get(), &getWeightMutable());
}

LogicalResult QuantizedElementOp::verify() {
  return verifyShape(*this, getWeight(), "weight", getPacking().storedShape());
}

void LibraryCallOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  getBufferEffects(*this, effects);
}

LogicalResult LibraryCallOp::verify() {
  if (getDestinations() < 1 || getDestinations() > getNumOperands())
    return emitOpError("needs destinations among its operands");
  for (Value init : getDpsInits())
    if (!isa<ShapedType>(init.getType()))
      return emitOpError("needs arrays as destinations");
  for (Value operand : getOperands()) {
    auto shaped = dyn_cast<ShapedType>(operand.getType());
    if (shaped && !libraryElement(shaped.getElementType()))
      return emitOpError("has no arrays of ") << shaped.getElementType();
  }
  return verifyDestinations(*this);
}

std::optional<int64_t> buddy::libraryElement(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type)) {
    Type part = complex.getElementType();
    if (part.isF32() || part.isF64())
      return part.isF32() ? BUDDY_COMPLEX64 : BUDDY_COMPLEX128;
  }
  if (type.isF32() || type.isF64())
    return type.isF32() ? BUDDY_F32 : BUDDY_F64;
  if (type.isSignlessInteger(32) || type.isSignlessInteger(64))
    return type.isSignlessInteger(32) ? BUDDY_I32 : BUDDY_I64;
  return std::nullopt;
}
