//===- ShapeExpression.cpp - symbolic sizes in `buddy.shape` --------------===//

#include "ShapeExpression.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace buddy;

static bool isSymbolChar(char c) { return llvm::isAlnum(c) || c == '_'; }

bool buddy::isSymbol(StringRef text) {
  return !text.empty() && !llvm::isDigit(text.front()) &&
         llvm::all_of(text, isSymbolChar);
}

namespace {
/// sum := product (('+' | '-') product)*
/// product := unary (('*' | '//') unary)*
/// unary := '-' unary | integer | symbol | '(' sum ')'
class Parser {
public:
  Parser(OpBuilder &builder, Location loc, StringRef text,
         const llvm::StringMap<Value> &symbols)
      : builder(builder), loc(loc), rest(text), symbols(symbols) {}

  Value parse() {
    Value value = sum();
    skipSpace();
    return rest.empty() ? value : Value();
  }

private:
  void skipSpace() { rest = rest.ltrim(' '); }
  bool take(StringRef token) {
    skipSpace();
    return rest.consume_front(token);
  }
  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  }
  template <typename Op> Value make(Value a, Value b) {
    return a && b ? Value(Op::create(builder, loc, a, b)) : Value();
  }

  Value sum() {
    Value value = product();
    while (value) {
      if (take("+"))
        value = make<arith::AddIOp>(value, product());
      else if (take("-"))
        value = make<arith::SubIOp>(value, product());
      else
        break;
    }
    return value;
  }
  Value product() {
    Value value = unary();
    while (value) {
      skipSpace();
      if (rest.starts_with("**"))
        return {};
      if (take("//")) {
        skipSpace();
        int64_t divisor;
        if (rest.consumeInteger(10, divisor) || divisor <= 0)
          return {};
        value = make<arith::FloorDivSIOp>(value, constant(divisor));
      } else if (take("*")) {
        value = make<arith::MulIOp>(value, unary());
      } else {
        break;
      }
    }
    return value;
  }
  Value unary() {
    if (take("-"))
      return make<arith::SubIOp>(constant(0), unary());
    if (take("(")) {
      Value value = sum();
      return take(")") ? value : Value();
    }
    skipSpace();
    StringRef word = rest.take_while(isSymbolChar);
    rest = rest.drop_front(word.size());
    int64_t number;
    if (!word.empty() && !word.getAsInteger(10, number))
      return constant(number);
    return symbols.lookup(word);
  }

  OpBuilder &builder;
  Location loc;
  StringRef rest;
  const llvm::StringMap<Value> &symbols;
};
} // namespace

Value buddy::emitShapeExpression(OpBuilder &builder, Location loc,
                                 StringRef text,
                                 const llvm::StringMap<Value> &symbols) {
  return Parser(builder, loc, text, symbols).parse();
}
