//===- EntryBuilder.cpp - one exported entry point ------------------------===//
//
// Enters: a function on memrefs. Leaves, before it:
//
//   NAME.check_sizes(ctx, args) -> i32   ABI, descriptors, sizes; private
//   NAME_workspace_size(ctx, args) -> i64
//   NAME(ctx, args) -> i32               strides, data, workspace, the call
//
// A check is a conditional branch to the function's one failure block, which
// takes the error's code and the pieces of its message.
//
//===----------------------------------------------------------------------===//

#include "EntryBuilder.h"

#include "FunctionBuilder.h"
#include "ShapeExpression.h"
#include "buddy/Context.h"
#include "buddy/Dialect/Buddy.h"
#include "buddy/Transforms/Workspace.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"

using namespace mlir;
using namespace buddy;

namespace {
class EntryEmitter {
public:
  EntryEmitter(func::FuncOp body, MessageEmitter &messages,
               const EntryNeeds &needs)
      : body(body), name(body.getName()), messages(messages),
        builder(body->getContext()), needs(needs) {}

  LogicalResult emit();

private:
  LogicalResult collectArguments();
  void emitCheckSizes();
  void emitWorkspaceSize();
  void emitCall();
  /// Checks the sizes that `buddy.shape` relates to each other.
  void checkSymbols(FunctionBuilder &f);
  void checkStrides(FunctionBuilder &f, unsigned i, Value isEmpty);
  /// Bytes of workspace for these arguments, i64.
  Value workspaceSize(FunctionBuilder &f);
  Value makeMemRef(FunctionBuilder &f, unsigned i);
  void checkWorkspace(FunctionBuilder &f);
  void checkWeights(FunctionBuilder &f);
  void requestTiles(FunctionBuilder &f);

  StringAttr symbol(StringRef suffix) {
    return builder.getStringAttr(Twine(name) + suffix);
  }

  func::FuncOp body;
  std::string name;
  MessageEmitter &messages;
  OpBuilder builder;
  EntryNeeds needs;
  SmallVector<Argument> arguments;
};
} // namespace

LogicalResult EntryEmitter::collectArguments() {
  for (unsigned i = 1, e = body.getNumArguments(); i < e; ++i) {
    Argument a;
    a.type = body.getArgument(i).getType();
    a.memref = dyn_cast<MemRefType>(a.type);
    auto nameAttr = body.getArgAttrOfType<StringAttr>(i, kNameAttr);
    a.name = nameAttr ? nameAttr.str() : "#" + std::to_string(i - 1);
    a.isWorkspace = body.getArgAttr(i, kWorkspaceAttr) != nullptr;
    if (auto shape = body.getArgAttrOfType<ArrayAttr>(i, kShapeAttr))
      for (Attribute dim : shape) {
        auto text = dyn_cast<StringAttr>(dim);
        if (!text)
          return emitError(body.getLoc(), "argument '")
                 << a.name << "': " << kShapeAttr << " holds no string";
        a.shape.push_back(text.getValue());
      }
    if (auto at = body.getArgAttrOfType<IntegerAttr>(i, kWeightOffsetAttr)) {
      SmallVector<int64_t> strides;
      int64_t offset;
      if (!a.memref || !a.memref.hasStaticShape() ||
          failed(a.memref.getStridesAndOffset(strides, offset)) ||
          llvm::any_of(strides, ShapedType::isDynamic))
        return emitError(body.getLoc(), "argument '")
               << a.name << "' has " << kWeightOffsetAttr
               << " and needs a static shape and static strides";
      if (at.getInt() < 0)
        return emitError(body.getLoc(), "argument '")
               << a.name << "' has a negative " << kWeightOffsetAttr;
      a.weightOffset = at.getInt();
    }
    if (a.memref && !a.shape.empty() &&
        int64_t(a.shape.size()) != a.memref.getRank())
      return emitError(body.getLoc(), "argument '")
             << a.name << "': " << kShapeAttr << " has " << a.shape.size()
             << " dimensions, the type " << a.memref.getRank();
    if (!a.memref && !a.type.isIntOrIndexOrFloat())
      return emitError(body.getLoc(), "argument '")
             << a.name << "' of an entry point has type " << a.type
             << "; only memrefs and scalars can be passed";
    arguments.push_back(std::move(a));
  }
  if (body.getNumResults() != 0)
    return emitError(body.getLoc(),
                     "an entry point returns nothing: results are written "
                     "to output arguments");
  return success();
}

void EntryEmitter::checkSymbols(FunctionBuilder &f) {
  llvm::StringMap<Value> symbols;
  llvm::StringMap<std::string> sources;
  struct Use {
    StringRef text;
    Value value;
    std::string what; ///< "argument 'x': dimension 0".
  };
  SmallVector<Use> uses;
  auto visit = [&](StringRef text, Value value, std::string what,
                   std::string source) {
    if (isSymbol(text) && symbols.try_emplace(text, value).second) {
      sources[text] = std::move(source);
      return;
    }
    int64_t number;
    if (text.getAsInteger(10, number)) // Numbers are in the type.
      uses.push_back({text, value, std::move(what)});
  };
  for (auto [i, a] : llvm::enumerate(arguments)) {
    if (!f.values[i])
      continue;
    for (auto [dim, text] : llvm::enumerate(a.shape)) {
      if (a.memref)
        visit(text, f.size(i, dim),
              "argument '" + a.name + "': dimension " + std::to_string(dim),
              "as dimension " + std::to_string(dim) + " of '" + a.name + "'");
      else if (a.type.isInteger(64))
        visit(text, f.values[i], "argument '" + a.name + "'",
              "as argument '" + a.name + "'");
    }
  }
  for (Use &use : uses) {
    Value expected = emitShapeExpression(builder, f.loc, use.text, symbols);
    if (!expected)
      continue;
    std::string why = isSymbol(use.text) ? ", " + sources[use.text]
                                         : " (" + use.text.str() + ")";
    f.require(f.compare(arith::CmpIPredicate::eq, use.value, expected),
              BUDDY_E_SHAPE,
              {{use.what + " is ", ", expected ", why}, {use.value, expected}});
  }
}

void EntryEmitter::emitCheckSizes() {
  FunctionBuilder f(builder, body.getLoc(), messages, arguments,
                    symbol(".check_sizes"), builder.getI32Type(), false);
  f.returnUnless(f.isNotNull(f.context), f.i32(BUDDY_E_NULL));
  // Where the ABI differs, the message may lie elsewhere.
  Value abi = f.load(f.context, offsetof(buddy_ctx, abi), builder.getI32Type());
  f.returnUnless(
      f.compare(arith::CmpIPredicate::eq, abi, f.i32(BUDDY_ABI_VERSION)),
      f.i32(BUDDY_E_ABI));
  f.store(f.i32(BUDDY_OK), f.context, offsetof(buddy_ctx, error));
  f.store(f.constant(builder.getI8Type(), 0), f.context,
          offsetof(buddy_ctx, message));
  for (auto [i, a] : llvm::enumerate(arguments)) {
    if (!a.memref || !f.values[i])
      continue;
    std::string what = "argument '" + a.name + "': ";
    f.require(f.isNotNull(f.values[i]), BUDDY_E_NULL,
              {{what + "the descriptor is null"}, {}});
    for (auto [dim, expected] : llvm::enumerate(a.memref.getShape())) {
      std::string text = what + "dimension " + std::to_string(dim) + " is ";
      Value actual = f.size(i, dim);
      if (ShapedType::isDynamic(expected))
        f.require(f.compare(arith::CmpIPredicate::sge, actual, f.i64(0)),
                  BUDDY_E_SHAPE, {{text, ", expected at least 0"}, {actual}});
      else
        f.require(f.compare(arith::CmpIPredicate::eq, actual, f.i64(expected)),
                  BUDDY_E_SHAPE,
                  {{text, ", expected " + std::to_string(expected)}, {actual}});
    }
  }
  checkSymbols(f);
  f.finish(f.i32(BUDDY_OK));
}

Value EntryEmitter::workspaceSize(FunctionBuilder &f) {
  auto sibling = body->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(
      symbol(kWorkspaceSizeSuffix));
  if (!sibling)
    return f.i64(0);
  SmallVector<Value> operands{f.context};
  auto index = [&](Value value) {
    operands.push_back(arith::IndexCastOp::create(
        builder, f.loc, builder.getIndexType(), value));
  };
  for (auto [i, a] : llvm::enumerate(arguments)) {
    if (a.isWorkspace)
      continue;
    if (a.memref) {
      for (int64_t dim = 0; dim < a.memref.getRank(); ++dim)
        if (a.memref.isDynamicDim(dim))
          index(f.size(i, dim));
    } else if (a.type.isIntOrIndex()) {
      index(f.values[i]);
    }
  }
  auto call = func::CallOp::create(builder, f.loc, sibling, operands);
  return arith::IndexCastOp::create(builder, f.loc, builder.getI64Type(),
                                    call.getResult(0));
}

void EntryEmitter::emitWorkspaceSize() {
  FunctionBuilder f(builder, body.getLoc(), messages, arguments,
                    symbol("_workspace_size"), builder.getI64Type(), true);
  Value rc = func::CallOp::create(builder, f.loc, symbol(".check_sizes"),
                                  builder.getI32Type(), f.operands)
                 .getResult(0);
  Value wide = arith::ExtSIOp::create(builder, f.loc, builder.getI64Type(), rc);
  f.returnUnless(f.compare(arith::CmpIPredicate::eq, rc, f.i32(BUDDY_OK)),
                 arith::SubIOp::create(builder, f.loc, f.i64(0), wide));
  f.finish(workspaceSize(f));
}

void EntryEmitter::checkStrides(FunctionBuilder &f, unsigned i, Value isEmpty) {
  const Argument &a = arguments[i];
  SmallVector<int64_t> strides;
  int64_t offset;
  bool identity = a.memref.getLayout().isIdentity();
  if (failed(a.memref.getStridesAndOffset(strides, offset)))
    return;
  Value running = f.i64(1);
  for (int64_t dim = a.memref.getRank() - 1; dim >= 0; --dim) {
    Value size = f.size(i, dim);
    Value expected = running;
    if (identity)
      running = arith::MulIOp::create(builder, f.loc, running, size);
    else if (ShapedType::isDynamic(strides[dim]))
      continue;
    else
      expected = f.i64(strides[dim]);
    Value actual = f.stride(i, dim);
    // The stride of a dimension that is never stepped along does not matter.
    Value ok = arith::OrIOp::create(
        builder, f.loc, f.compare(arith::CmpIPredicate::eq, actual, expected),
        f.compare(arith::CmpIPredicate::eq, size, f.i64(1)));
    f.require(
        arith::OrIOp::create(builder, f.loc, ok, isEmpty), BUDDY_E_SHAPE,
        {{"argument '" + a.name + "': stride " + std::to_string(dim) + " is ",
          ", expected ", identity ? " (contiguous)" : ""},
         {actual, expected}});
  }
}

Value EntryEmitter::makeMemRef(FunctionBuilder &f, unsigned i) {
  const Argument &a = arguments[i];
  LLVMTypeConverter converter(builder.getContext());
  auto cast = [&](Value descriptor) {
    return UnrealizedConversionCastOp::create(builder, f.loc, a.memref,
                                              descriptor)
        .getResult(0);
  };
  if (a.weightOffset) {
    Value weights =
        f.load(f.context, offsetof(buddy_ctx, weights), f.context.getType());
    Value data = LLVM::GEPOp::create(
        builder, f.loc, weights.getType(), builder.getI8Type(), weights,
        ArrayRef<LLVM::GEPArg>{f.i64(*a.weightOffset)});
    return cast(MemRefDescriptor::fromStaticShape(builder, f.loc, converter,
                                                  a.memref, data));
  }
  MemRefDescriptor descriptor =
      MemRefDescriptor::poison(builder, f.loc, converter.convertType(a.memref));
  descriptor.setAllocatedPtr(builder, f.loc, f.base(i));
  descriptor.setAlignedPtr(builder, f.loc, f.data(i));
  descriptor.setOffset(builder, f.loc, f.offset(i));
  bool identity = a.memref.getLayout().isIdentity();
  Value running = f.i64(1);
  for (int64_t dim = a.memref.getRank() - 1; dim >= 0; --dim) {
    Value size = f.size(i, dim);
    descriptor.setSize(builder, f.loc, dim, size);
    // A stride that the checks let pass may differ from the contiguous one,
    // which the code is free to assume.
    descriptor.setStride(builder, f.loc, dim,
                         identity ? running : f.stride(i, dim));
    if (identity)
      running = arith::MulIOp::create(builder, f.loc, running, size);
  }
  return cast(descriptor);
}

void EntryEmitter::checkWorkspace(FunctionBuilder &f) {
  Value needed = workspaceSize(f);
  Value size = f.load(f.context, offsetof(buddy_ctx, workspace_size),
                      builder.getI64Type());
  f.require(f.compare(arith::CmpIPredicate::sle, needed, size),
            BUDDY_E_WORKSPACE,
            {{"the workspace has ", " bytes, " + name + " needs ",
              "; see " + name + "_workspace_size"},
             {size, needed}});
  Value pointer =
      f.load(f.context, offsetof(buddy_ctx, workspace), f.context.getType());
  Value unused = f.compare(arith::CmpIPredicate::eq, needed, f.i64(0));
  Value bits =
      LLVM::PtrToIntOp::create(builder, f.loc, builder.getI64Type(), pointer);
  Value low = arith::AndIOp::create(builder, f.loc, bits,
                                    f.i64(kWorkspaceAlignment - 1));
  auto either = [&](Value a) -> Value {
    return arith::OrIOp::create(builder, f.loc, a, unused);
  };
  f.require(either(f.isNotNull(pointer)), BUDDY_E_WORKSPACE,
            {{"the workspace is null"}, {}});
  f.require(either(f.compare(arith::CmpIPredicate::eq, low, f.i64(0))),
            BUDDY_E_WORKSPACE,
            {{"the workspace is not aligned to 64 bytes"}, {}});
}

void EntryEmitter::checkWeights(FunctionBuilder &f) {
  DataLayout layout = DataLayout::closest(body);
  int64_t needed = 0;
  bool bound = false;
  for (const Argument &a : arguments) {
    if (!a.weightOffset)
      continue;
    bound = true;
    SmallVector<int64_t> strides;
    int64_t offset, last = 0;
    (void)a.memref.getStridesAndOffset(strides, offset);
    if (a.memref.getNumElements() == 0)
      continue;
    for (auto [size, stride] : llvm::zip(a.memref.getShape(), strides))
      last += (size - 1) * stride;
    needed = std::max(needed, *a.weightOffset +
                                  (last + 1) * int64_t(layout.getTypeSize(
                                                   a.memref.getElementType())));
  }
  if (!bound)
    return;
  Value weights =
      f.load(f.context, offsetof(buddy_ctx, weights), f.context.getType());
  f.require(f.isNotNull(weights), BUDDY_E_NULL,
            {{"the context has no weights"}, {}});
  Value size = f.load(f.context, offsetof(buddy_ctx, weights_size),
                      builder.getI64Type());
  f.require(f.compare(arith::CmpIPredicate::sge, size, f.i64(needed)),
            BUDDY_E_ARGUMENT,
            {{"the context's weights have ",
              " bytes, " + name + " needs " + std::to_string(needed)},
             {size}});
}

void EntryEmitter::requestTiles(FunctionBuilder &f) {
  // Linux's arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) is for the
  // whole process, returns at once if it was granted before (about 0.1 us) and
  // needs no variable that remembers. A kernel or CPU without AMX refuses.
  constexpr int64_t kArchPrctl = 158, kRequest = 0x1023, kTileData = 18;
  Value code =
      LLVM::InlineAsmOp::create(
          builder, f.loc, builder.getI64Type(),
          ValueRange{f.i64(kArchPrctl), f.i64(kRequest), f.i64(kTileData)},
          "syscall",
          "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory},~{dirflag},"
          "~{fpsr},~{flags}",
          /*has_side_effects=*/true, /*is_align_stack=*/false,
          LLVM::tailcallkind::TailCallKind::None, /*asm_dialect=*/nullptr,
          /*operand_attrs=*/nullptr)
          .getResult(0);
  f.require(f.compare(arith::CmpIPredicate::eq, code, f.i64(0)),
            BUDDY_E_UNSUPPORTED,
            {{name + " was compiled for AMX, which this machine or its system "
                     "does not let it use (arch_prctl returned ",
              ")"},
             {code}});
}

void EntryEmitter::emitCall() {
  FunctionBuilder f(builder, body.getLoc(), messages, arguments, name,
                    builder.getI32Type(), true);
  Value rc = func::CallOp::create(builder, f.loc, symbol(".check_sizes"),
                                  builder.getI32Type(), f.operands)
                 .getResult(0);
  f.returnUnless(f.compare(arith::CmpIPredicate::eq, rc, f.i32(BUDDY_OK)), rc);
  for (auto [i, a] : llvm::enumerate(arguments)) {
    if (!a.memref || !f.values[i])
      continue;
    Value count = f.i64(1);
    for (unsigned dim = 0, e = f.rank(i); dim < e; ++dim)
      count = arith::MulIOp::create(builder, f.loc, count, f.size(i, dim));
    Value isEmpty = f.compare(arith::CmpIPredicate::eq, count, f.i64(0));
    std::string what = "argument '" + a.name + "': ";
    Value offset = f.offset(i);
    f.require(f.compare(arith::CmpIPredicate::eq, offset, f.i64(0)),
              BUDDY_E_SHAPE,
              {{what + "the offset is ", ", expected 0"}, {offset}});
    checkStrides(f, i, isEmpty);
    f.require(
        arith::OrIOp::create(builder, f.loc, f.isNotNull(f.data(i)), isEmpty),
        BUDDY_E_NULL, {{what + "the data is null"}, {}});
  }
  checkWeights(f);
  checkWorkspace(f);
  if (needs.tiles)
    requestTiles(f);
  if (needs.blockTime) {
    Value time = f.load(f.context, offsetof(buddy_ctx, block_time_ms),
                        builder.getI32Type());
    LLVM::CallOp::create(builder, f.loc, TypeRange{}, "buddy.set_block_time",
                         time);
  }
  SmallVector<Value> operands{f.context};
  for (auto [i, a] : llvm::enumerate(arguments)) {
    if (a.isWorkspace) {
      LLVMTypeConverter converter(builder.getContext());
      Value pointer = f.load(f.context, offsetof(buddy_ctx, workspace),
                             f.context.getType());
      Value size = f.load(f.context, offsetof(buddy_ctx, workspace_size),
                          builder.getI64Type());
      MemRefDescriptor descriptor = MemRefDescriptor::poison(
          builder, f.loc, converter.convertType(a.memref));
      descriptor.setAllocatedPtr(builder, f.loc, pointer);
      descriptor.setAlignedPtr(builder, f.loc, pointer);
      descriptor.setConstantOffset(builder, f.loc, 0);
      descriptor.setSize(builder, f.loc, 0, size);
      descriptor.setConstantStride(builder, f.loc, 0, 1);
      operands.push_back(UnrealizedConversionCastOp::create(
                             builder, f.loc, a.memref, Value(descriptor))
                             .getResult(0));
    } else if (a.memref) {
      operands.push_back(makeMemRef(f, i));
    } else if (a.type.isIndex()) {
      operands.push_back(
          arith::IndexCastOp::create(builder, f.loc, a.type, f.values[i]));
    } else {
      operands.push_back(f.values[i]);
    }
  }
  func::CallOp::create(builder, f.loc, body, operands);
  f.finish(f.load(f.context, offsetof(buddy_ctx, error), builder.getI32Type()));
}

LogicalResult EntryEmitter::emit() {
  if (failed(collectArguments()))
    return failure();
  body.setName(symbol(".body"));
  body.setPrivate();
  body->removeAttr(kEntryAttr);
  builder.setInsertionPoint(body);
  emitCheckSizes();
  emitWorkspaceSize();
  emitCall();
  return success();
}

LogicalResult buddy::emitEntry(func::FuncOp body, MessageEmitter &messages,
                               const EntryNeeds &needs) {
  return EntryEmitter(body, messages, needs).emit();
}
