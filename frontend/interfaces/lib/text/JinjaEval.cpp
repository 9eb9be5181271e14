//===- JinjaEval.cpp - Interpreter of chat templates ----------------------===//

#include "Jinja.h"

#include <map>

using namespace buddy::text::jinja;

namespace {

using Kind = Node::Kind;

/// What a statement leaves behind.
enum class Flow { Next, Break, Continue };

const char *typeName(const Value &value) {
  return value.is_discarded() ? "undefined" : value.type_name();
}

class Interpreter {
public:
  explicit Interpreter(const Value &context) {
    scopes.emplace_back();
    for (const auto &[name, value] : context.items())
      scopes.back()[name] = value;
  }

  std::string output;

  Flow run(const Node &node) {
    switch (node.kind) {
    case Kind::Block:
      for (const auto &child : node.children) {
        Flow flow = run(*child);
        if (flow != Flow::Next)
          return flow;
      }
      return Flow::Next;
    case Kind::Text:
      output += node.text;
      return Flow::Next;
    case Kind::Output:
      output += toText(evaluate(*node.children[0]));
      return Flow::Next;
    case Kind::If:
      if (isTrue(evaluate(*node.children[0])))
        return run(*node.children[1]);
      return node.children[2] ? run(*node.children[2]) : Flow::Next;
    case Kind::For:
      loop(node);
      return Flow::Next;
    case Kind::Set:
      assign(node);
      return Flow::Next;
    case Kind::SetBlock: {
      std::string outer;
      outer.swap(output);
      Flow flow = run(*node.children[0]);
      scopes.back()[node.text] = output;
      output.swap(outer);
      return flow;
    }
    case Kind::Break:
      return Flow::Break;
    case Kind::Continue:
      return Flow::Continue;
    default:
      fail("an expression where a statement is expected");
    }
  }

private:
  Value *lookUp(const std::string &name) {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      auto it = scope->find(name);
      if (it != scope->end())
        return &it->second;
    }
    return nullptr;
  }

  void assign(const Node &node) {
    Value value = evaluate(*node.children[0]);
    if (node.names.empty()) {
      scopes.back()[node.text] = std::move(value);
      return;
    }
    // namespace() objects are what loops may write to.
    Value *object = lookUp(node.text);
    if (!object || !object->is_object())
      fail("'" + node.text + "' is not a namespace");
    (*object)[node.names[0]] = std::move(value);
  }

  void bind(const Node &node, const Value &item) {
    if (node.names.size() == 1) {
      scopes.back()[node.names[0]] = item;
      return;
    }
    if (!item.is_array() || item.size() != node.names.size())
      fail("cannot unpack a loop's item to " +
           std::to_string(node.names.size()) + " names");
    for (size_t i = 0; i < node.names.size(); ++i)
      scopes.back()[node.names[i]] = item[i];
  }

  void loop(const Node &node) {
    std::vector<Value> items = elements(evaluate(*node.children[0]));
    if (node.children[1]) {
      std::vector<Value> kept;
      scopes.emplace_back();
      for (Value &item : items) {
        bind(node, item);
        if (isTrue(evaluate(*node.children[1])))
          kept.push_back(std::move(item));
      }
      scopes.pop_back();
      items = std::move(kept);
    }
    if (items.empty() && node.children[3]) {
      run(*node.children[3]);
      return;
    }
    for (size_t i = 0; i < items.size(); ++i) {
      // Each turn has a scope of its own: what it sets does not last.
      scopes.emplace_back();
      bind(node, items[i]);
      Value info = {{"index", i + 1},
                    {"index0", i},
                    {"revindex", items.size() - i},
                    {"revindex0", items.size() - i - 1},
                    {"first", i == 0},
                    {"last", i + 1 == items.size()},
                    {"length", items.size()}};
      if (i > 0)
        info["previtem"] = items[i - 1];
      if (i + 1 < items.size())
        info["nextitem"] = items[i + 1];
      scopes.back()["loop"] = std::move(info);
      Flow flow = run(*node.children[2]);
      scopes.pop_back();
      if (flow == Flow::Break)
        break;
    }
  }

  Value evaluate(const Node &node) {
    switch (node.kind) {
    case Kind::Literal:
      return node.value;
    case Kind::Name: {
      if (const Value *value = lookUp(node.text))
        return *value;
      // A function is defined; there is nothing to do with it but calling it.
      return isFunction(node.text) ? Value::object() : undefined();
    }
    case Kind::List: {
      Value list = Value::array();
      for (const auto &child : node.children)
        list.push_back(evaluate(*child));
      return list;
    }
    case Kind::Dict: {
      Value dictionary = Value::object();
      for (size_t i = 0; i < node.children.size(); i += 2) {
        Value key = evaluate(*node.children[i]);
        if (!key.is_string())
          fail("a dictionary key that is not a string");
        dictionary[key.get<std::string>()] = evaluate(*node.children[i + 1]);
      }
      return dictionary;
    }
    case Kind::Attribute:
      return item(evaluate(*node.children[0]), Value(node.text));
    case Kind::Item:
      return item(evaluate(*node.children[0]), evaluate(*node.children[1]));
    case Kind::Slice:
      return slice(node);
    case Kind::Call:
      return callFunction(node.text, arguments(node, 0));
    case Kind::Method:
      return callMethod(node.text, evaluate(*node.children[0]),
                        arguments(node, 1));
    case Kind::Filter:
      return applyFilter(node.text, evaluate(*node.children[0]),
                         arguments(node, 1));
    case Kind::Test:
      return applyTest(node.text, evaluate(*node.children[0]),
                       arguments(node, 1));
    case Kind::Unary:
      return unary(node.text, evaluate(*node.children[0]));
    case Kind::Binary:
      return binary(node);
    case Kind::Compare:
      return compare(node);
    case Kind::Choice:
      if (isTrue(evaluate(*node.children[1])))
        return evaluate(*node.children[0]);
      return node.children[2] ? evaluate(*node.children[2]) : undefined();
    default:
      fail("a statement where an expression is expected");
    }
  }

  Arguments arguments(const Node &node, size_t from) {
    Arguments result;
    for (size_t i = from; i < node.children.size(); ++i)
      result.positional.push_back(evaluate(*node.children[i]));
    for (const auto &[name, value] : node.keywords)
      result.named.emplace_back(name, evaluate(*value));
    return result;
  }

  static Value item(const Value &object, const Value &key) {
    if (object.is_discarded())
      fail("'" + toText(key) + "' of an undefined value");
    if (object.is_object() && key.is_string()) {
      auto it = object.find(key.get_ref<const std::string &>());
      return it == object.end() ? undefined() : *it;
    }
    if (key.is_number_integer() && (object.is_array() || object.is_string())) {
      std::vector<Value> items = elements(object);
      auto index = key.get<int64_t>();
      auto size = static_cast<int64_t>(items.size());
      index += index < 0 ? size : 0;
      return index < 0 || index >= size ? undefined() : items[index];
    }
    return undefined();
  }

  /// Python's slice.
  Value slice(const Node &node) {
    Value object = evaluate(*node.children[0]);
    if (!object.is_array() && !object.is_string())
      fail(std::string("a slice of ") + typeName(object));
    std::vector<Value> items = elements(object);
    auto size = static_cast<int64_t>(items.size());
    auto bound = [&](int part, int64_t otherwise, int64_t low, int64_t high) {
      const auto &child = node.children[part];
      Value value = child ? evaluate(*child) : Value();
      if (value.is_null())
        return otherwise;
      if (!value.is_number_integer())
        fail("a slice bound that is not an integer");
      auto number = value.get<int64_t>();
      number += number < 0 ? size : 0;
      return std::min(std::max(number, low), high);
    };
    int64_t step = 1;
    if (node.children[3]) {
      Value value = evaluate(*node.children[3]);
      if (!value.is_number_integer() || value == 0)
        fail("malformed slice step");
      step = value.get<int64_t>();
    }
    bool forward = step > 0;
    int64_t begin =
        forward ? bound(1, 0, 0, size) : bound(1, size - 1, -1, size - 1);
    int64_t end =
        forward ? bound(2, size, 0, size) : bound(2, -1, -1, size - 1);
    Value list = Value::array();
    std::string text;
    for (int64_t i = begin; forward ? i < end : i > end; i += step) {
      if (object.is_string())
        text += items[i].get_ref<const std::string &>();
      else
        list.push_back(items[i]);
    }
    return object.is_string() ? Value(text) : list;
  }

  static Value unary(const std::string &name, const Value &value) {
    if (name == "not")
      return !isTrue(value);
    if (value.is_number_integer())
      return -value.get<int64_t>();
    fail(std::string("a minus before ") + typeName(value));
  }

  Value binary(const Node &node) {
    const std::string &name = node.text;
    Value left = evaluate(*node.children[0]);
    if (name == "or")
      return isTrue(left) ? left : evaluate(*node.children[1]);
    if (name == "and")
      return isTrue(left) ? evaluate(*node.children[1]) : left;
    Value right = evaluate(*node.children[1]);
    if (name == "~")
      return toText(left) + toText(right);
    if (name == "+" && left.is_string() && right.is_string())
      return left.get<std::string>() + right.get<std::string>();
    if (name == "+" && left.is_array() && right.is_array()) {
      for (Value &item : right)
        left.push_back(std::move(item));
      return left;
    }
    if (left.is_number_integer() && right.is_number_integer())
      return arithmetic(name, left.get<int64_t>(), right.get<int64_t>());
    fail(std::string("the operator ") + name + " of " + typeName(left) +
         " and " + typeName(right));
  }

  static Value arithmetic(const std::string &name, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    if (name == "+") {
      overflow = __builtin_add_overflow(a, b, &result);
    } else if (name == "-") {
      overflow = __builtin_sub_overflow(a, b, &result);
    } else if (name == "*") {
      overflow = __builtin_mul_overflow(a, b, &result);
    } else if ((name == "//" || name == "%") && b != 0 && b != -1) {
      // Python rounds toward minus infinity.
      int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
      result = name == "%" ? a - quotient * b : quotient;
    } else {
      fail("the operator " + name + " of " + std::to_string(a) + " and " +
           std::to_string(b));
    }
    if (overflow)
      fail("an integer overflow");
    return result;
  }

  Value compare(const Node &node) {
    Value left = evaluate(*node.children[0]);
    for (size_t i = 0; i < node.names.size(); ++i) {
      Value right = evaluate(*node.children[i + 1]);
      if (!holds(node.names[i], left, right))
        return false;
      left = std::move(right);
    }
    return true;
  }

  static bool equal(const Value &left, const Value &right) {
    if (left.is_discarded() || right.is_discarded())
      return left.is_discarded() && right.is_discarded();
    return left == right;
  }

  static bool contains(const Value &container, const Value &item) {
    if (container.is_string() && item.is_string())
      return container.get_ref<const std::string &>().find(
                 item.get_ref<const std::string &>()) != std::string::npos;
    if (container.is_object())
      return item.is_string() &&
             container.contains(item.get_ref<const std::string &>());
    if (!container.is_array() && !container.is_discarded())
      fail(std::string("'in' of ") + typeName(container));
    for (const Value &element : elements(container))
      if (equal(element, item))
        return true;
    return false;
  }

  static bool holds(const std::string &name, const Value &left,
                    const Value &right) {
    if (name == "==")
      return equal(left, right);
    if (name == "!=")
      return !equal(left, right);
    if (name == "in")
      return contains(right, left);
    if (name == "not in")
      return !contains(right, left);
    bool ordered = (left.is_number() && right.is_number()) ||
                   (left.is_string() && right.is_string());
    if (!ordered)
      fail("the comparison " + name + " of " + typeName(left) + " and " +
           typeName(right));
    return name == "<"    ? left < right
           : name == ">"  ? left > right
           : name == "<=" ? left <= right
                          : left >= right;
  }

  std::vector<std::map<std::string, Value>> scopes;
};

} // namespace

std::string buddy::text::jinja::render(const Node &root, const Value &context) {
  Interpreter interpreter(context);
  interpreter.run(root);
  return std::move(interpreter.output);
}
