//===- JinjaFunctions.cpp - Functions, methods, filters and tests ---------===//

#include "Jinja.h"
#include "Unicode.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <algorithm>
#include <ctime>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

using namespace buddy::text;
using namespace buddy::text::jinja;

namespace {

/// str.isspace of Python: White_Space and the four separators U+001C–U+001F.
bool isPythonSpace(char32_t c) {
  return (c >= 0x1C && c <= 0x1F) || u_isUWhiteSpace(static_cast<UChar32>(c));
}

const std::string &textOf(const Value &value, const std::string &user) {
  if (!value.is_string())
    fail("'" + user + "' needs a string");
  return value.get_ref<const std::string &>();
}

/// str.strip of Python; `set` is what to strip, white space if undefined.
std::string strip(const std::string &text, const Value &set, bool left,
                  bool right) {
  std::vector<std::string> unwanted;
  if (set.is_string())
    unwanted = characters(set.get_ref<const std::string &>());
  auto isUnwanted = [&](const std::string &character) {
    if (set.is_string())
      return std::find(unwanted.begin(), unwanted.end(), character) !=
             unwanted.end();
    size_t at = 0;
    return isPythonSpace(nextCodePoint(character, at));
  };
  std::vector<std::string> parts = characters(text);
  size_t begin = 0, end = parts.size();
  while (left && begin < end && isUnwanted(parts[begin]))
    ++begin;
  while (right && end > begin && isUnwanted(parts[end - 1]))
    --end;
  std::string result;
  for (; begin < end; ++begin)
    result += parts[begin];
  return result;
}

std::string replace(const std::string &text, const std::string &from,
                    const std::string &to) {
  if (from.empty())
    fail("'replace' of an empty string");
  std::string result;
  size_t begin = 0;
  for (size_t at; (at = text.find(from, begin)) != std::string::npos;
       begin = at + from.size())
    result.append(text, begin, at - begin).append(to);
  return result.append(text, begin, std::string::npos);
}

std::string changeCase(const std::string &text, bool upper) {
  icu::UnicodeString string = icu::UnicodeString::fromUTF8(text);
  if (upper)
    string.toUpper(icu::Locale::getRoot());
  else
    string.toLower(icu::Locale::getRoot());
  std::string result;
  return string.toUTF8String(result);
}

Value split(const std::string &text, const Value &separator) {
  Value parts = Value::array();
  if (separator.is_string()) {
    const auto &mark = separator.get_ref<const std::string &>();
    if (mark.empty())
      fail("'split' with an empty separator");
    size_t begin = 0;
    for (size_t at; (at = text.find(mark, begin)) != std::string::npos;
         begin = at + mark.size())
      parts.push_back(text.substr(begin, at - begin));
    parts.push_back(text.substr(begin));
    return parts;
  }
  std::string word;
  for (const std::string &character : characters(text)) {
    size_t at = 0;
    if (!isPythonSpace(nextCodePoint(character, at))) {
      word += character;
    } else if (!word.empty()) {
      parts.push_back(word);
      word.clear();
    }
  }
  if (!word.empty())
    parts.push_back(word);
  return parts;
}

Value items(const Value &object, const std::string &user) {
  if (!object.is_object())
    fail("'" + user + "' needs a dictionary");
  Value pairs = Value::array();
  for (const auto &[key, value] : object.items())
    pairs.push_back(Value::array({key, value}));
  return pairs;
}

/// json.dumps(value, ensure_ascii=False) of Python.
void dump(const Value &value, std::string &out) {
  if (value.is_discarded())
    fail("'tojson' of an undefined value");
  if (value.is_number_float())
    fail("'tojson' of a float is not supported");
  bool isFirst = true;
  auto separate = [&] {
    out += isFirst ? "" : ", ";
    isFirst = false;
  };
  if (value.is_array()) {
    out += '[';
    for (const Value &item : value) {
      separate();
      dump(item, out);
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    for (const auto &[key, item] : value.items()) {
      separate();
      out += Value(key).dump() + ": ";
      dump(item, out);
    }
    out += '}';
  } else {
    out += value.dump();
  }
}

Value range(const Arguments &arguments) {
  int64_t bounds[3] = {0, 0, 1};
  size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty())
    fail("'range' takes one to three numbers");
  for (size_t i = 0; i < count; ++i) {
    if (!arguments.positional[i].is_number_integer())
      fail("'range' of something that is not an integer");
    bounds[count == 1 ? 1 : i] = arguments.positional[i].get<int64_t>();
  }
  auto [begin, end, step] = bounds;
  Value list = Value::array();
  if (step == 0)
    fail("'range' with step 0");
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    // The limit of Jinja's sandbox.
    if (list.size() == 100000)
      fail("'range' of more than 100000 numbers");
    list.push_back(i);
  }
  return list;
}

} // namespace

Value Arguments::get(size_t index, const char *name) const {
  if (index < positional.size())
    return positional[index];
  for (const auto &[key, value] : named)
    if (key == name)
      return value;
  return undefined();
}

bool buddy::text::jinja::isTrue(const Value &value) {
  switch (value.type()) {
  case Value::value_t::discarded:
  case Value::value_t::null:
    return false;
  case Value::value_t::boolean:
    return value.get<bool>();
  case Value::value_t::string:
    return !value.get_ref<const std::string &>().empty();
  case Value::value_t::array:
  case Value::value_t::object:
    return !value.empty();
  default:
    return value != 0;
  }
}

std::string buddy::text::jinja::toText(const Value &value) {
  if (value.is_discarded())
    return "";
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_null())
    return "None";
  if (value.is_boolean())
    return value.get<bool>() ? "True" : "False";
  if (value.is_number_integer())
    return value.dump();
  fail(std::string("printing a value of type ") + value.type_name() +
       " is not supported");
}

std::vector<std::string>
buddy::text::jinja::characters(const std::string &text) {
  std::vector<std::string> result;
  for (size_t at = 0; at < text.size();) {
    size_t length = utf8Length(text[at]);
    result.push_back(text.substr(at, length));
    at += length;
  }
  return result;
}

std::vector<Value> buddy::text::jinja::elements(const Value &value) {
  std::vector<Value> result;
  if (value.is_array()) {
    result.assign(value.begin(), value.end());
  } else if (value.is_object()) {
    for (const auto &[key, item] : value.items())
      result.emplace_back(key);
  } else if (value.is_string()) {
    for (std::string &character :
         characters(value.get_ref<const std::string &>()))
      result.emplace_back(std::move(character));
  } else if (!value.is_discarded()) {
    fail(std::string("a loop over ") + value.type_name());
  }
  return result;
}

bool buddy::text::jinja::isFunction(const std::string &name) {
  return name == "raise_exception" || name == "namespace" || name == "dict" ||
         name == "range" || name == "strftime_now";
}

Value buddy::text::jinja::callFunction(const std::string &name,
                                       const Arguments &arguments) {
  if (name == "raise_exception")
    throw Error(BUDDY_E_ARGUMENT, toText(arguments.get(0, "message")));
  if (name == "namespace" || name == "dict") {
    if (!arguments.positional.empty())
      fail("positional arguments of '" + name + "' are not supported");
    Value object = Value::object();
    for (const auto &[key, value] : arguments.named)
      object[key] = value;
    return object;
  }
  if (name == "range")
    return range(arguments);
  if (name == "strftime_now") {
    std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char text[256];
    std::string format = textOf(arguments.get(0, "format"), name);
    return std::string(
        text, std::strftime(text, sizeof(text), format.c_str(), &local));
  }
  fail("the function '" + name + "' is not supported");
}

Value buddy::text::jinja::callMethod(const std::string &name,
                                     const Value &object,
                                     const Arguments &arguments) {
  Value first = arguments.get(0, "");
  if (object.is_object()) {
    if (name == "items")
      return items(object, name);
    if (name == "get") {
      auto it = object.find(textOf(first, name));
      Value otherwise = arguments.get(1, "");
      return it != object.end()         ? *it
             : otherwise.is_discarded() ? Value()
                                        : otherwise;
    }
    if (name == "keys" || name == "values") {
      Value list = Value::array();
      for (const auto &[key, value] : object.items())
        list.push_back(name == "keys" ? Value(key) : value);
      return list;
    }
  }
  if (object.is_string()) {
    const auto &text = object.get_ref<const std::string &>();
    if (name == "strip" || name == "lstrip" || name == "rstrip")
      return strip(text, first, name != "rstrip", name != "lstrip");
    if (name == "startswith")
      return startsWith(text, textOf(first, name));
    if (name == "endswith") {
      const std::string &end = textOf(first, name);
      return text.size() >= end.size() &&
             text.compare(text.size() - end.size(), end.size(), end) == 0;
    }
    if (name == "upper" || name == "lower")
      return changeCase(text, name == "upper");
    if (name == "split" && arguments.positional.size() < 2)
      return split(text, first);
    if (name == "replace" && arguments.positional.size() == 2)
      return replace(text, textOf(first, name),
                     textOf(arguments.positional[1], name));
  }
  fail("the method '" + name + "' of a value of type " +
       (object.is_discarded() ? "undefined" : object.type_name()) +
       " is not supported");
}

Value buddy::text::jinja::applyFilter(const std::string &name,
                                      const Value &value,
                                      const Arguments &arguments) {
  if (name == "trim")
    return strip(toText(value), arguments.get(0, "chars"), true, true);
  if (name == "upper" || name == "lower")
    return changeCase(toText(value), name == "upper");
  if (name == "string" || name == "safe")
    return toText(value);
  if (name == "length" || name == "count") {
    if (value.is_number() || value.is_boolean() || value.is_null())
      fail("the length of a value of type " + std::string(value.type_name()));
    return elements(value).size();
  }
  if (name == "default" || name == "d") {
    bool replaceFalse = isTrue(arguments.get(1, "boolean"));
    Value otherwise = arguments.get(0, "default_value");
    bool isMissing = value.is_discarded() || (replaceFalse && !isTrue(value));
    if (!isMissing)
      return value;
    return otherwise.is_discarded() ? Value("") : otherwise;
  }
  if (name == "first" || name == "last") {
    std::vector<Value> list = elements(value);
    if (list.empty())
      return undefined();
    return name == "first" ? list.front() : list.back();
  }
  if (name == "list")
    return elements(value);
  if (name == "items")
    return items(value, name);
  if (name == "join") {
    Value separator = arguments.get(0, "d");
    std::string result;
    bool isFirst = true;
    for (const Value &item : elements(value)) {
      if (!isFirst)
        result += toText(separator);
      isFirst = false;
      result += toText(item);
    }
    return result;
  }
  if (name == "replace" && arguments.positional.size() == 2)
    return replace(toText(value), textOf(arguments.positional[0], name),
                   textOf(arguments.positional[1], name));
  if (name == "tojson" && arguments.positional.empty() &&
      arguments.named.empty()) {
    std::string result;
    dump(value, result);
    return result;
  }
  fail("the filter '" + name + "' with these arguments is not supported");
}

bool buddy::text::jinja::applyTest(const std::string &name, const Value &value,
                                   const Arguments &arguments) {
  bool isDefined = !value.is_discarded();
  if (name == "defined")
    return isDefined;
  if (name == "undefined")
    return !isDefined;
  if (name == "none")
    return value.is_null();
  if (name == "string")
    return value.is_string();
  if (name == "mapping")
    return value.is_object();
  if (name == "number")
    return value.is_number() || value.is_boolean();
  if (name == "integer")
    return value.is_number_integer();
  if (name == "boolean")
    return value.is_boolean();
  if (name == "true" || name == "false")
    return value.is_boolean() && value.get<bool>() == (name == "true");
  if (name == "iterable" || name == "sequence")
    return value.is_array() || value.is_object() || value.is_string() ||
           (!isDefined && name == "iterable");
  if ((name == "odd" || name == "even") && value.is_number_integer())
    return (value.get<int64_t>() % 2 != 0) == (name == "odd");
  if (name == "equalto" || name == "eq" || name == "sameas")
    return isDefined && value == arguments.get(0, "other");
  fail("the test '" + name + "' is not supported");
}
