//===- FunctionBuilder.cpp - one function of an entry point ---------------===//

#include "FunctionBuilder.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

using namespace mlir;
using namespace buddy;

FunctionBuilder::FunctionBuilder(OpBuilder &builder, Location loc,
                                 MessageEmitter &messages,
                                 ArrayRef<Argument> arguments, StringRef name,
                                 Type result, bool exported)
    : builder(builder), loc(loc), messages(messages), arguments(arguments) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> types{pointer};
  for (const Argument &a : arguments)
    if (!a.weightOffset && !a.isWorkspace)
      types.push_back(a.memref           ? pointer
                      : a.type.isIndex() ? Type(builder.getI64Type())
                                         : a.type);
  function = func::FuncOp::create(builder, loc, name,
                                  builder.getFunctionType(types, result));
  if (!exported)
    function.setPrivate();
  Block *entry = function.addEntryBlock();
  context = entry->getArgument(0);
  llvm::append_range(operands, entry->getArguments());
  unsigned next = 1;
  for (const Argument &a : arguments)
    values.push_back(
        a.weightOffset || a.isWorkspace ? Value() : entry->getArgument(next++));
  builder.setInsertionPointToStart(entry);
}

void FunctionBuilder::require(Value ok, int32_t code, const Message &message) {
  SmallVector<Value> pieces{i32(code)};
  llvm::append_range(pieces, messages.emitPieces(builder, loc, message));
  Block *block = builder.getBlock();
  if (!failure) {
    OpBuilder::InsertionGuard guard(builder);
    failure = nextBlock();
    for (Value piece : pieces)
      failure->addArgument(piece.getType(), loc);
    Value failureCode = failure->getArgument(0);
    messages.emitFail(builder, loc, context, failureCode,
                      failure->getArguments().drop_front());
    func::ReturnOp::create(builder, loc, failureCode);
  }
  Block *next = nextBlock();
  builder.setInsertionPointToEnd(block);
  cf::CondBranchOp::create(builder, loc, ok, next, ValueRange{}, failure,
                           pieces);
  builder.setInsertionPointToStart(next);
}

void FunctionBuilder::returnUnless(Value ok, Value result) {
  Block *block = builder.getBlock();
  Block *out = nextBlock();
  func::ReturnOp::create(builder, loc, result);
  Block *next = nextBlock();
  builder.setInsertionPointToEnd(block);
  cf::CondBranchOp::create(builder, loc, ok, next, ValueRange{}, out,
                           ValueRange{});
  builder.setInsertionPointToStart(next);
}

void FunctionBuilder::finish(Value result) {
  func::ReturnOp::create(builder, loc, result);
  builder.setInsertionPointAfter(function);
}
