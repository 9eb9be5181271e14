//===- PlanMemory.cpp - one workspace for a call --------------------------===//
//
// Enters: functions with memref.alloc, deallocs or none. Leaves: functions that
// take a workspace and make views of it; what cannot be planned is on the stack
// or the heap, freed where it dies. Callees are planned before their callers,
// who count a callee's workspace as a buffer of their own, alive at the call.
//
//===----------------------------------------------------------------------===//

#include "AssignSlots.h"
#include "EntrySizes.h"
#include "Liveness.h"
#include "SizeText.h"
#include "buddy/Transforms/Passes.h"
#include "buddy/Transforms/Remarks.h"
#include "buddy/Transforms/Workspace.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"

namespace buddy {
#define GEN_PASS_DEF_PLANMEMORY
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// Up to so many bytes a buffer of constant size is on the stack: where it may
/// become registers, and in parallel regions, whose threads share no workspace.
static constexpr int64_t kStackBytes = 256;
static constexpr int64_t kParallelStackBytes = 256 << 10;
/// The enclosing op whose threads run `op`, or null.
static Operation *enclosingParallel(Operation *op) {
  while ((op = op->getParentOp()) && !isa<func::FuncOp>(op))
    if (isa<omp::ParallelOp, scf::ParallelOp, scf::ForallOp>(op))
      return op;
  return nullptr;
}

/// Where a stack allocation that lives in `scope` goes, so that it is not
/// repeated by a loop: the start of the next region that frees its stack.
static Block *stackBlock(Block *scope) {
  Operation *parent = scope->getParentOp();
  while (!isa<func::FuncOp, memref::AllocaScopeOp, omp::ParallelOp,
              scf::ParallelOp, scf::ForallOp>(parent)) {
    scope = parent->getBlock();
    parent = scope->getParentOp();
  }
  // With several blocks, the first dominates the others.
  return &scope->getParent()->front();
}

namespace {
/// A buffer of the plan: an allocation, or the workspace of a call.
struct Buffer {
  Operation *op;
  int64_t factor;           ///< Bytes, times the product of `sizes`.
  SmallVector<Value> sizes; ///< At the function's entry.
  LiveRange range;
  SmallVector<memref::DeallocOp> deallocs;
};

class FunctionPlan {
public:
  /// `workspaces`: estimates of the callees' bytes; gets this function's.
  FunctionPlan(func::FuncOp function, SymbolTable &symbols,
               llvm::StringMap<int64_t> &workspaces)
      : function(function), symbols(symbols), workspaces(workspaces),
        liveness(function), sizes(function),
        layout(DataLayout::closest(function)) {}

  LogicalResult run();

private:
  LogicalResult planAlloc(memref::AllocOp alloc);
  void planCall(func::CallOp call, func::FuncOp callee);
  void toStack(memref::AllocOp alloc, const BufferUse &use);
  LogicalResult toHeap(memref::AllocOp alloc, const BufferUse &use,
                       StringRef reason);
  /// A workspace for one call, allocated at the call.
  void allocateAtCall(func::CallOp call, func::FuncOp callee);
  /// Bytes of an element, or 0 if that is not a constant.
  int64_t elementBytes(Type type);
  void emitPlan();
  void emitSizeFunction(Value total);
  /// Tells what lies where and when. `offsets` are those of the slots.
  void report(ArrayRef<unsigned> slots, ValueRange offsets, Value total);

  func::FuncOp function;
  SymbolTable &symbols;
  llvm::StringMap<int64_t> &workspaces;
  BufferLiveness liveness;
  EntrySizes sizes;
  DataLayout layout;
  SmallVector<Buffer> buffers;
};
} // namespace

int64_t FunctionPlan::elementBytes(Type type) {
  if (auto vector = dyn_cast<VectorType>(type); vector && vector.isScalable())
    return 0;
  // An element takes its size rounded up to its alignment.
  llvm::TypeSize size = layout.getTypeSize(type);
  return llvm::alignTo(size.getFixedValue(), layout.getTypeABIAlignment(type));
}

void FunctionPlan::toStack(memref::AllocOp alloc, const BufferUse &use) {
  OpBuilder builder = OpBuilder::atBlockBegin(stackBlock(use.scope));
  auto stack = memref::AllocaOp::create(
      builder, alloc.getLoc(), alloc.getType(), alloc.getAlignmentAttr());
  for (memref::DeallocOp dealloc : use.deallocs)
    dealloc.erase();
  alloc.replaceAllUsesWith(stack.getResult());
  alloc.erase();
}

LogicalResult FunctionPlan::toHeap(memref::AllocOp alloc, const BufferUse &use,
                                   StringRef reason) {
  remark::missed(alloc.getLoc(), remarkOptions("heap", alloc))
      << remark::metric("type", Type(alloc.getType()))
      << remark::metric("reason", reason);
  if (!use.deallocs.empty())
    return success();
  if (!use.scope->getParent()->hasOneBlock())
    return alloc.emitError("a buffer whose size the arguments do not determine "
                           "needs a region of one block, or a dealloc");
  OpBuilder builder(use.scope->getTerminator());
  // The buffer may have been handed out of a branch, as may another.
  if (alloc->getBlock() != use.scope)
    return alloc.emitError("a buffer whose size the arguments do not determine "
                           "leaves the branch that allocates it");
  memref::DeallocOp::create(builder, alloc.getLoc(), alloc);
  return success();
}

LogicalResult FunctionPlan::planAlloc(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  BufferUse use = liveness.analyze(alloc);
  if (use.escape) {
    InFlightDiagnostic error = alloc.emitError(
        isa<func::FuncOp>(use.escape->getParentOp())
            ? "a buffer allocated in a function is returned from it; use a "
              "destination argument"
            : "a buffer allocated in an iteration of a loop is carried to the "
              "next; allocate it before the loop");
    error.attachNote(use.escape->getLoc()) << "here";
    return error;
  }
  bool parallel = enclosingParallel(alloc);
  int64_t bytes = elementBytes(type.getElementType());
  bool plannable = bytes > 0 && type.getLayout().isIdentity() &&
                   alloc.getAlignment().value_or(1) <= kWorkspaceAlignment &&
                   alloc.getSymbolOperands().empty();
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size))
      bytes *= size;
  if (plannable && type.hasStaticShape() &&
      bytes <= (parallel ? kParallelStackBytes : kStackBytes)) {
    remark::analysis(alloc.getLoc(), remarkOptions("stack", alloc))
        << remark::metric("bytes", bytes)
        << remark::metric("threads", parallel);
    toStack(alloc, use);
    return success();
  }
  if (!plannable || parallel)
    return toHeap(alloc, use,
                  !parallel ? "of a layout or element that is not planned"
                  : type.hasStaticShape()
                      ? "too large for the stack of each thread"
                      : "each thread has its own, of unknown size");
  Buffer buffer{alloc, bytes, {}, use.range, use.deallocs};
  for (Value size : alloc.getDynamicSizes()) {
    Value bound = sizes.getBound(size);
    if (!bound)
      return toHeap(alloc, use, "the arguments do not determine its size");
    if (std::optional<int64_t> number = getConstantIntValue(bound))
      buffer.factor *= *number;
    else
      buffer.sizes.push_back(bound);
  }
  buffers.push_back(std::move(buffer));
  return success();
}

void FunctionPlan::planCall(func::CallOp call, func::FuncOp callee) {
  if (!enclosingParallel(call)) {
    if (auto operands = sizes.getCallSizes(call, callee)) {
      auto size = symbols.lookup<func::FuncOp>(
          (callee.getName() + kWorkspaceSizeSuffix).str());
      Value bytes = sizes.make<func::CallOp>(size, *operands);
      buffers.push_back({call, 1, {bytes}, liveness.range(call), {}});
      return;
    }
  }
  allocateAtCall(call, callee);
}

void FunctionPlan::allocateAtCall(func::CallOp call, func::FuncOp callee) {
  OpBuilder builder(call);
  Location loc = call.getLoc();
  remark::missed(loc, remarkOptions("heap", call))
      << remark::metric("type", Type(callee.getArgumentTypes().back()))
      << remark::metric("reason", "the workspace of a call whose sizes the "
                                  "arguments do not determine");
  SmallVector<Value> operands;
  for (auto [operand, type] :
       llvm::zip(call.getOperands(), callee.getArgumentTypes())) {
    if (auto memref = dyn_cast<MemRefType>(type)) {
      for (int64_t dim = 0; dim < memref.getRank(); ++dim)
        if (memref.isDynamicDim(dim))
          operands.push_back(memref::DimOp::create(builder, loc, operand, dim));
    } else if (type.isIndex()) {
      operands.push_back(operand);
    } else if (type.isIntOrIndex()) {
      operands.push_back(arith::IndexCastOp::create(
          builder, loc, builder.getIndexType(), operand));
    }
  }
  auto size = symbols.lookup<func::FuncOp>(
      (callee.getName() + kWorkspaceSizeSuffix).str());
  Value bytes = func::CallOp::create(builder, loc, size, operands).getResult(0);
  auto type = cast<MemRefType>(callee.getArgumentTypes().back());
  Value workspace =
      memref::AllocOp::create(builder, loc, type, bytes,
                              builder.getI64IntegerAttr(kWorkspaceAlignment));
  call->insertOperands(call->getNumOperands(), workspace);
  builder.setInsertionPointAfter(call);
  memref::DeallocOp::create(builder, loc, workspace);
}

void FunctionPlan::emitPlan() {
  // Buffers of one product of sizes can be compared by their factors.
  SmallVector<SmallVector<Value>> keys;
  SmallVector<PlacedBuffer> placed;
  for (Buffer &buffer : buffers) {
    llvm::sort(buffer.sizes, [](Value a, Value b) {
      auto position = [](Value v) {
        auto arg = dyn_cast<BlockArgument>(v);
        return arg ? std::make_pair(0u, arg.getArgNumber())
                   : std::make_pair(1u, 0u);
      };
      if (position(a) != position(b))
        return position(a) < position(b);
      return !isa<BlockArgument>(a) && a != b &&
             a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
    });
    auto found = llvm::find(keys, buffer.sizes);
    unsigned key = found - keys.begin();
    if (found == keys.end())
      keys.push_back(buffer.sizes);
    int64_t estimate = buffer.factor;
    for (Value size : buffer.sizes)
      // A callee's workspace is in bytes.
      estimate *= size.getDefiningOp<func::CallOp>() ? 1 << 20 : kAssumedSize;
    placed.push_back({buffer.range, buffer.factor, key, estimate});
  }
  SmallVector<unsigned> slots = assignSlots(placed);

  // Bytes of each slot: the largest member of each key, then the maximum.
  Type index = IndexType::get(function.getContext());
  unsigned count = slots.empty() ? 0 : *llvm::max_element(slots) + 1;
  SmallVector<Value> offsets;
  Value total = sizes.constant(0);
  for (unsigned slot = 0; slot < count; ++slot) {
    llvm::MapVector<unsigned, int64_t> factors;
    for (auto [i, buffer] : llvm::enumerate(placed))
      if (slots[i] == slot)
        factors[buffer.key] = std::max(factors[buffer.key], buffer.factor);
    Value bytes;
    for (auto [key, factor] : factors) {
      Value product = sizes.constant(factor);
      for (Value size : keys[key]) {
        if (!size.getType().isIndex())
          size = sizes.make<arith::IndexCastOp>(index, size);
        product = sizes.make<arith::MulIOp>(product, size);
      }
      bytes = bytes ? sizes.make<arith::MaxSIOp>(bytes, product) : product;
    }
    Value up = sizes.make<arith::AddIOp>(
        bytes, sizes.constant(kWorkspaceAlignment - 1));
    Value aligned =
        sizes.make<arith::AndIOp>(up, sizes.constant(-kWorkspaceAlignment));
    offsets.push_back(total);
    total = sizes.make<arith::AddIOp>(total, aligned);
  }
  report(slots, offsets, total);
  emitSizeFunction(total);

  auto type = MemRefType::get({ShapedType::kDynamic},
                              IntegerType::get(function.getContext(), 8));
  unsigned position = function.getNumArguments();
  NamedAttribute mark(StringAttr::get(function.getContext(), kWorkspaceAttr),
                      UnitAttr::get(function.getContext()));
  (void)function.insertArgument(
      position, type, DictionaryAttr::get(function.getContext(), mark),
      function.getLoc());
  Value workspace = function.getArgument(position);
  for (auto [buffer, slot] : llvm::zip(buffers, slots)) {
    OpBuilder builder(buffer.op);
    Location loc = buffer.op->getLoc();
    if (auto call = dyn_cast<func::CallOp>(buffer.op)) {
      Value part = memref::ViewOp::create(builder, loc, type, workspace,
                                          offsets[slot], buffer.sizes.front());
      call->insertOperands(call->getNumOperands(), part);
      continue;
    }
    auto alloc = cast<memref::AllocOp>(buffer.op);
    Value view =
        memref::ViewOp::create(builder, loc, alloc.getType(), workspace,
                               offsets[slot], alloc.getDynamicSizes());
    for (memref::DeallocOp dealloc : buffer.deallocs)
      dealloc.erase();
    alloc.replaceAllUsesWith(view);
    alloc.erase();
  }
}

void FunctionPlan::report(ArrayRef<unsigned> slots, ValueRange offsets,
                          Value total) {
  SizeText size(function, workspaces);
  int64_t estimate = size.estimate(total);
  workspaces[function.getName()] = estimate;
  if (!function.getContext()->getRemarkEngine())
    return;
  LiveRange whole = liveness.range(function);
  remark::analysis(function.getLoc(), remarkOptions("arena", function))
      << remark::metric("estimate", estimate)
      << remark::metric("end", whole.end);
  for (auto [buffer, slot] : llvm::zip(buffers, slots)) {
    auto call = dyn_cast<func::CallOp>(buffer.op);
    std::string bytes;
    int64_t count = buffer.factor;
    if (buffer.factor != 1 || buffer.sizes.empty())
      bytes = std::to_string(buffer.factor);
    for (Value each : buffer.sizes) {
      bytes += (bytes.empty() ? "" : " * ") + size.factor(each);
      count *= size.estimate(each);
    }
    remark::analysis(buffer.op->getLoc(), remarkOptions("buffer", function))
        << remark::metric("slot", slot)
        << remark::metric("offset", size.estimate(offsets[slot]))
        << remark::metric("bytes", bytes) << remark::metric("estimate", count)
        << remark::metric("begin", buffer.range.begin)
        << remark::metric("end", buffer.range.end)
        << remark::metric(
               "type",
               call
                   ? std::string("workspace")
                   : llvm::formatv("{0}", buffer.op->getResultTypes()[0]).str())
        << remark::metric("callee", call ? call.getCallee() : StringRef());
  }
}

void FunctionPlan::emitSizeFunction(Value total) {
  OpBuilder builder(function->getContext());
  Type index = builder.getIndexType();
  SmallVector<Type> types(countSizes(function.getArgumentTypes()), index);
  auto size = func::FuncOp::create(
      function.getLoc(), (function.getName() + kWorkspaceSizeSuffix).str(),
      builder.getFunctionType(types, index));
  size.setPrivate();
  size.addEntryBlock();
  symbols.insert(size, std::next(Block::iterator(function)));
  SmallVector<Value> results = sizes.cloneInto(size, total);
  builder.setInsertionPointToEnd(&size.getBody().front());
  func::ReturnOp::create(builder, function.getLoc(), results);
}

LogicalResult FunctionPlan::run() {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isa<memref::AllocOp, func::CallOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
      if (failed(planAlloc(alloc)))
        return failure();
      continue;
    }
    auto call = cast<func::CallOp>(op);
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (callee && callee.getNumArguments() != call.getNumOperands())
      planCall(call, callee);
  }
  if (!buffers.empty())
    emitPlan();
  return success();
}

namespace {
struct PlanMemory : buddy::impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::StringMap<int64_t> workspaces;
    // Callees first.
    enum State { New, Open, Done };
    DenseMap<Operation *, State> states;
    auto visit = [&](auto &self, func::FuncOp function) -> LogicalResult {
      State &state = states[function];
      if (state == Done)
        return success();
      if (state == Open)
        return emitError(function.getLoc(),
                         "a recursive function has no workspace of "
                         "known size");
      state = Open;
      SmallVector<func::FuncOp> callees;
      function.walk([&](func::CallOp call) {
        auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
        if (callee && !callee.isExternal())
          callees.push_back(callee);
      });
      for (func::FuncOp callee : callees)
        if (failed(self(self, callee)))
          return failure();
      states[function] = Done;
      return FunctionPlan(function, symbols, workspaces).run();
    };
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (!function.isExternal() && failed(visit(visit, function)))
        return signalPassFailure();
  }
};
} // namespace
