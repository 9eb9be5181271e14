//===- SizeText.cpp - sizes for people to read ----------------------------===//

#include "SizeText.h"

#include "buddy/Dialect/Buddy.h"
#include "buddy/Transforms/Workspace.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace buddy;

/// Characters of an expression that a person would still read.
static constexpr size_t kLongest = 40;

const SizeText::Reading &SizeText::read(Value size) {
  auto found = known.find(size);
  if (found == known.end())
    found = known.try_emplace(size, compute(size)).first;
  return found->second;
}

SizeText::Reading SizeText::symbol(const Twine &name) {
  Reading reading{name.str(), kAssumedSize, false};
  reading.atom = llvm::all_of(reading.text, [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '.' || c == '?';
  });
  reading.symbols.insert(names.insert(reading.text).first->getKey());
  return reading;
}

SizeText::Reading SizeText::argument(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  auto name = function.getArgAttrOfType<StringAttr>(number, kNameAttr);
  if (name)
    return symbol(name.getValue());
  return symbol("arg" + Twine(number));
}

SizeText::Reading SizeText::dimension(Value memref, int64_t dim) {
  auto owner = dyn_cast<BlockArgument>(memref);
  if (!owner)
    return symbol("?");
  unsigned number = owner.getArgNumber();
  auto shape = function.getArgAttrOfType<ArrayAttr>(number, kShapeAttr);
  if (shape && dim < int64_t(shape.size()))
    if (auto text = dyn_cast<StringAttr>(shape[dim]))
      return symbol(text.getValue());
  return symbol("arg" + Twine(number) + "." + Twine(dim));
}

SizeText::Reading SizeText::compute(Value size) {
  if (std::optional<int64_t> number = getConstantIntValue(size))
    return {std::to_string(*number), *number, true};
  if (auto owner = dyn_cast<BlockArgument>(size))
    return argument(owner);
  Operation *op = size.getDefiningOp();
  if (auto dim = dyn_cast<memref::DimOp>(op))
    return dimension(dim.getSource(), dim.getConstantIndex().value_or(0));
  if (auto call = dyn_cast<func::CallOp>(op)) {
    StringRef callee = call.getCallee();
    callee.consume_back(kWorkspaceSizeSuffix);
    return {llvm::formatv("workspace of @{0}", callee).str(),
            workspaces.lookup(callee), false};
  }
  if (isa<arith::IndexCastOp>(op))
    return read(op->getOperand(0));
  Reading reading = expression(op);
  for (Value operand : op->getOperands())
    reading.symbols.insert_range(read(operand).symbols);
  if (reading.text.size() > kLongest) {
    reading.text =
        llvm::formatv("f({0})", llvm::join(reading.symbols, ", ")).str();
    reading.atom = true;
  }
  return reading;
}

SizeText::Reading SizeText::expression(Operation *op) {
  auto part = [](const Reading &r) {
    return r.atom ? r.text : "(" + r.text + ")";
  };
  Reading unknown = symbol("?");
  if (isa<arith::SelectOp>(op)) {
    Reading c = read(op->getOperand(0)), x = read(op->getOperand(1)),
            y = read(op->getOperand(2));
    return {llvm::formatv("{0} ? {1} : {2}", part(c), part(x), part(y)).str(),
            c.estimate ? x.estimate : y.estimate, false};
  }
  if (op->getNumOperands() != 2)
    return unknown;
  // Copies: reading one may move the other.
  Reading a = read(op->getOperand(0)), b = read(op->getOperand(1));
  int64_t x = a.estimate, y = b.estimate;
  auto infix = [&](StringRef sign, int64_t value) -> Reading {
    return {llvm::formatv("{0} {1} {2}", part(a), sign, part(b)).str(), value,
            false};
  };
  auto function = [&](StringRef name, int64_t value) -> Reading {
    return {llvm::formatv("{0}({1}, {2})", name, a.text, b.text).str(), value,
            true};
  };
  if (isa<arith::AddIOp>(op))
    return infix("+", x + y);
  if (isa<arith::SubIOp>(op))
    return infix("-", x - y);
  if (isa<arith::MulIOp>(op))
    return infix("*", x * y);
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(op))
    return infix("/", y ? x / y : 0);
  if (isa<arith::CeilDivSIOp, arith::CeilDivUIOp>(op))
    return function("ceildiv", y ? (x + y - 1) / y : 0);
  if (isa<arith::RemSIOp, arith::RemUIOp>(op))
    return infix("%", y ? x % y : 0);
  if (isa<arith::AndIOp>(op))
    return infix("&", x & y);
  if (isa<arith::MaxSIOp, arith::MaxUIOp>(op))
    return function("max", std::max(x, y));
  if (isa<arith::MinSIOp, arith::MinUIOp>(op))
    return function("min", std::min(x, y));
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    arith::CmpIPredicate predicate = compare.getPredicate();
    // Sizes are not negative, so that signs make no difference.
    StringRef sign = llvm::StringSwitch<StringRef>(stringifyEnum(predicate))
                         .Case("eq", "==")
                         .Case("ne", "!=")
                         .Cases({"slt", "ult"}, "<")
                         .Cases({"sle", "ule"}, "<=")
                         .Cases({"sgt", "ugt"}, ">")
                         .Default(">=");
    return infix(sign, arith::applyCmpPredicate(predicate, APInt(64, x, true),
                                                APInt(64, y, true)));
  }
  return unknown;
}
