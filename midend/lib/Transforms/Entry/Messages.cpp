//===- Messages.cpp - error texts of emitted code -------------------------===//

#include "Messages.h"

#include "buddy/Context.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace buddy;

// The numbers in the text below. 431 leaves room for the terminating NUL.
static_assert(offsetof(buddy_ctx, error) == 12 &&
                  offsetof(buddy_ctx, message) == 80 &&
                  BUDDY_MESSAGE_SIZE == 432 && BUDDY_E_CHECK == 5,
              "the functions below write these fields");

/// append_text and append_number write at an offset in ctx->message, stop at
/// its end, and return the new offset. fail writes a whole error; check_failed
/// the first of those that threads may meet at once.
static constexpr const char kFunctions[] = R"mlir(
llvm.func internal @buddy.append_text(%ctx: !llvm.ptr, %at: i64, %text: !llvm.ptr) -> i64 attributes {passthrough = ["cold", "noinline", "nounwind"]} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %nul = llvm.mlir.constant(0 : i8) : i8
  %last = llvm.mlir.constant(431 : i64) : i64
  %message = llvm.getelementptr %ctx[80] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.br ^next(%at, %zero : i64, i64)
^next(%to: i64, %from: i64):
  %source = llvm.getelementptr %text[%from] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %target = llvm.getelementptr %message[%to] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %char = llvm.load %source : !llvm.ptr -> i8
  %end = llvm.icmp "eq" %char, %nul : i8
  %full = llvm.icmp "uge" %to, %last : i64
  %stop = llvm.or %end, %full : i1
  llvm.cond_br %stop, ^exit, ^copy
^copy:
  llvm.store %char, %target : i8, !llvm.ptr
  %to1 = llvm.add %to, %one : i64
  %from1 = llvm.add %from, %one : i64
  llvm.br ^next(%to1, %from1 : i64, i64)
^exit:
  llvm.store %nul, %target : i8, !llvm.ptr
  llvm.return %to : i64
}

llvm.func internal @buddy.append_number(%ctx: !llvm.ptr, %at: i64, %value: i64) -> i64 attributes {passthrough = ["cold", "noinline", "nounwind"]} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %ten = llvm.mlir.constant(10 : i64) : i64
  %size = llvm.mlir.constant(24 : i32) : i32
  %nul = llvm.mlir.constant(0 : i8) : i8
  %ascii0 = llvm.mlir.constant(48 : i64) : i64
  %minus = llvm.mlir.constant(45 : i8) : i8
  %last = llvm.mlir.constant(23 : i64) : i64
  %digits = llvm.alloca %size x i8 : (i32) -> !llvm.ptr
  %end = llvm.getelementptr %digits[%last] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.store %nul, %end : i8, !llvm.ptr
  %negative = llvm.icmp "slt" %value, %zero : i64
  %negated = llvm.sub %zero, %value : i64
  %magnitude = llvm.select %negative, %negated, %value : i1, i64
  llvm.br ^next(%last, %magnitude : i64, i64)
^next(%pos: i64, %rest: i64):
  %pos1 = llvm.sub %pos, %one : i64
  %digit = llvm.urem %rest, %ten : i64
  %code = llvm.add %digit, %ascii0 : i64
  %char = llvm.trunc %code : i64 to i8
  %target = llvm.getelementptr %digits[%pos1] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.store %char, %target : i8, !llvm.ptr
  %rest1 = llvm.udiv %rest, %ten : i64
  %done = llvm.icmp "eq" %rest1, %zero : i64
  llvm.cond_br %done, ^sign, ^next(%pos1, %rest1 : i64, i64)
^sign:
  %pos2 = llvm.sub %pos1, %one : i64
  %front = llvm.getelementptr %digits[%pos2] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.store %minus, %front : i8, !llvm.ptr
  %start = llvm.select %negative, %pos2, %pos1 : i1, i64
  %text = llvm.getelementptr %digits[%start] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %to = llvm.call @buddy.append_text(%ctx, %at, %text) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  llvm.return %to : i64
}

llvm.func internal @buddy.fail(%ctx: !llvm.ptr, %code: i32, %text0: !llvm.ptr, %value0: i64, %text1: !llvm.ptr, %value1: i64, %text2: !llvm.ptr) attributes {passthrough = ["cold", "noinline", "nounwind"]} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %error = llvm.getelementptr %ctx[12] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %code, %error : i32, !llvm.ptr
  %at0 = llvm.call @buddy.append_text(%ctx, %zero, %text0) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  %end0 = llvm.icmp "eq" %text1, %null : !llvm.ptr
  llvm.cond_br %end0, ^exit, ^second
^second:
  %at1 = llvm.call @buddy.append_number(%ctx, %at0, %value0) : (!llvm.ptr, i64, i64) -> i64
  %at2 = llvm.call @buddy.append_text(%ctx, %at1, %text1) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  %end1 = llvm.icmp "eq" %text2, %null : !llvm.ptr
  llvm.cond_br %end1, ^exit, ^third
^third:
  %at3 = llvm.call @buddy.append_number(%ctx, %at2, %value1) : (!llvm.ptr, i64, i64) -> i64
  %at4 = llvm.call @buddy.append_text(%ctx, %at3, %text2) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  llvm.br ^exit
^exit:
  llvm.return
}

llvm.func internal @buddy.check_failed(%ctx: !llvm.ptr, %text: !llvm.ptr) attributes {passthrough = ["cold", "noinline", "nounwind"]} {
  %ok = llvm.mlir.constant(0 : i32) : i32
  %code = llvm.mlir.constant(5 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  %error = llvm.getelementptr %ctx[12] : (!llvm.ptr) -> !llvm.ptr, i8
  %pair = llvm.cmpxchg %error, %ok, %code monotonic monotonic : !llvm.ptr, i32
  %first = llvm.extractvalue %pair[1] : !llvm.struct<(i32, i1)>
  llvm.cond_br %first, ^write, ^exit
^write:
  %at = llvm.call @buddy.append_text(%ctx, %zero, %text) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  llvm.br ^exit
^exit:
  llvm.return
}

llvm.func internal @buddy.check(%ctx: !llvm.ptr, %ok: i1, %text: !llvm.ptr) attributes {passthrough = ["alwaysinline", "nounwind"]} {
  llvm.cond_br %ok, ^exit, ^failed
^failed:
  llvm.call @buddy.check_failed(%ctx, %text) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.br ^exit
^exit:
  llvm.return
}
)mlir";

MessageEmitter::MessageEmitter(ModuleOp module) : module(module) {
  OwningOpRef<ModuleOp> functions =
      parseSourceString<ModuleOp>(kFunctions, module.getContext());
  assert(functions && "the functions above are wrong");
  for (Operation &function :
       llvm::make_early_inc_range(functions->getBody()->getOperations()))
    function.moveBefore(module.getBody(), module.getBody()->end());
}

Value MessageEmitter::text(OpBuilder &builder, Location loc, StringRef text) {
  LLVM::GlobalOp &global = texts[text];
  if (!global) {
    OpBuilder atModule = OpBuilder::atBlockEnd(module.getBody());
    std::string bytes = text.take_front(BUDDY_MESSAGE_SIZE - 1).str();
    bytes.push_back('\0');
    global = LLVM::GlobalOp::create(
        atModule, loc,
        LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size()),
        /*isConstant=*/true, LLVM::Linkage::Internal,
        "buddy.text." + std::to_string(texts.size() - 1),
        builder.getStringAttr(bytes));
  }
  return LLVM::AddressOfOp::create(builder, loc, global);
}

void MessageEmitter::emitCheck(OpBuilder &builder, Location loc, Value context,
                               Value ok, StringRef message) {
  LLVM::CallOp::create(builder, loc, TypeRange{}, "buddy.check",
                       ValueRange{context, ok, text(builder, loc, message)});
}

SmallVector<Value> MessageEmitter::emitPieces(OpBuilder &builder, Location loc,
                                              const Message &message) {
  auto null = [&]() -> Value {
    return LLVM::ZeroOp::create(
        builder, loc, LLVM::LLVMPointerType::get(builder.getContext()));
  };
  SmallVector<Value> pieces;
  for (size_t i = 0; i < 3; ++i) {
    pieces.push_back(i < message.texts.size()
                         ? text(builder, loc, message.texts[i])
                         : null());
    if (i == 2)
      break;
    pieces.push_back(
        i < message.values.size()
            ? message.values[i]
            : Value(LLVM::ConstantOp::create(builder, loc, builder.getI64Type(),
                                             builder.getI64IntegerAttr(0))));
  }
  return pieces;
}

void MessageEmitter::emitFail(OpBuilder &builder, Location loc, Value context,
                              Value code, ValueRange pieces) {
  SmallVector<Value> operands{context, code};
  llvm::append_range(operands, pieces);
  LLVM::CallOp::create(builder, loc, TypeRange{}, "buddy.fail", operands);
}
