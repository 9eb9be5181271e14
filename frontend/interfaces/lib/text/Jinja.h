//===- Jinja.h - The part of Jinja that chat templates use ------*- C++ -*-===//
//
// A chat template is a program in Jinja (jinja.palletsprojects.com, "Template
// Designer Documentation") run by transformers with trim_blocks and
// lstrip_blocks set.  Running it, rather than knowing templates by name, gives
// the model's own format.  The subset: text, {{ }}, if, for, set, break,
// continue, generation; expressions with the operators, filters, tests, methods
// and functions listed in JinjaEval.cpp and JinjaFunctions.cpp.  Whatever else
// a template uses is an error that names it.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_JINJA_H
#define BUDDY_LIB_TEXT_JINJA_H

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace buddy::text::jinja {

/// A value; `discarded` stands for Jinja's undefined.
using Value = nlohmann::ordered_json;

inline Value undefined() { return Value(Value::value_t::discarded); }

[[noreturn]] void fail(const std::string &what);

struct Node {
  enum class Kind {
    // Statements.
    Block,    ///< Children in order.
    Text,     ///< `text` as it is.
    Output,   ///< The value of child 0.
    If,       ///< Child 0 condition, 1 then, 2 else.
    For,      ///< `names`; child 0 iterable, 1 filter or null, 2 body, 3 else.
    Set,      ///< `text`, or attribute `names[0]` of it; child 0 the value.
    SetBlock, ///< `text`; child 0 the body.
    Break,
    Continue,
    // Expressions.
    Literal, ///< `value`.
    Name,    ///< `text`.
    List,
    Dict,      ///< Keys and values by turns.
    Attribute, ///< `text` of child 0.
    Item,      ///< Child 0 at child 1.
    Slice,     ///< Child 0 from 1 to 2 by 3, each of which may be null.
    Call,      ///< Function `text`.
    Method,    ///< Method `text` of child 0.
    Filter,    ///< Filter `text` of child 0.
    Test,      ///< Test `text` of child 0.
    Unary,     ///< Operator `text`.
    Binary,    ///< Operator `text`.
    Compare,   ///< Operators in `names`, one fewer than children.
    Choice,    ///< Child 0 if child 1 else child 2, which may be null.
  };

  explicit Node(Kind kind, std::string text = {})
      : kind(kind), text(std::move(text)) {}

  Kind kind;
  std::string text;
  std::vector<std::string> names;
  Value value;
  /// Positional arguments come after the children listed above.
  std::vector<std::unique_ptr<Node>> children;
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> keywords;
};

/// Throws buddy::Error for what is malformed or not in the subset.
std::unique_ptr<Node> parse(std::string_view source);

/// Runs a template with the variables of `context`, an object.
std::string render(const Node &root, const Value &context);

/// Arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `index` or called `name`; undefined if not given.
  Value get(size_t index, const char *name) const;
};

bool isFunction(const std::string &name);
Value callFunction(const std::string &name, const Arguments &arguments);
Value callMethod(const std::string &name, const Value &object,
                 const Arguments &arguments);
Value applyFilter(const std::string &name, const Value &value,
                  const Arguments &arguments);
bool applyTest(const std::string &name, const Value &value,
               const Arguments &arguments);

bool isTrue(const Value &value);
/// As {{ }} prints it.
std::string toText(const Value &value);
/// Code points of a string.
std::vector<std::string> characters(const std::string &text);
/// What a loop over it goes through.
std::vector<Value> elements(const Value &value);

} // namespace buddy::text::jinja

#endif // BUDDY_LIB_TEXT_JINJA_H
