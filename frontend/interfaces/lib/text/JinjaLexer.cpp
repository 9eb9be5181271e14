//===- JinjaLexer.cpp - Tokens of chat templates --------------------------===//

#include "JinjaLexer.h"
#include "Jinja.h"
#include "Unicode.h"

#include <cstring>

using namespace buddy::text;
using namespace buddy::text::jinja;

namespace {

bool isSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isWordBegin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer {
public:
  explicit Lexer(std::string_view source) {
    // Jinja reads any line break as \n and drops one at the very end.
    for (size_t i = 0; i < source.size(); ++i) {
      bool crlf =
          source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n';
      if (!crlf)
        text += source[i] == '\r' ? '\n' : source[i];
    }
    if (!text.empty() && text.back() == '\n')
      text.pop_back();
  }

  std::vector<Token> run() {
    while (at < text.size()) {
      size_t open = text.find('{', at);
      while (open != std::string::npos &&
             (open + 1 == text.size() || !std::strchr("{%#", text[open + 1]) ||
              text[open + 1] == '\0'))
        open = text.find('{', open + 1);
      if (open == std::string::npos) {
        plain(text.size());
        break;
      }
      tag(open);
    }
    tokens.push_back({Token::End, "end of the template"});
    return std::move(tokens);
  }

private:
  void plain(size_t end) {
    if (at < end)
      tokens.push_back({Token::Text, text.substr(at, end - at)});
    at = end;
  }

  void tag(size_t open) {
    char type = text[open + 1];
    size_t inside = open + 2;
    char sign = inside < text.size() ? text[inside] : '\0';
    size_t end = open;
    if (sign == '-') {
      while (end > at && isSpace(text[end - 1]))
        --end;
    } else if (sign != '+' && type != '{') {
      // lstrip_blocks: the tag's indentation goes if nothing else is before it
      // on its line.
      size_t line = open;
      while (line > at && (text[line - 1] == ' ' || text[line - 1] == '\t'))
        --line;
      if (line == 0 || text[line - 1] == '\n')
        end = line;
    }
    plain(end);
    at = inside + (sign == '-' || sign == '+');
    if (type == '#') {
      size_t close = text.find("#}", at);
      if (close == std::string::npos)
        fail("a comment without end");
      at = close;
      finish('#', close > inside ? text[close - 1] : '\0');
      return;
    }
    tokens.push_back(type == '{' ? Token{Token::OutputBegin, "{{"}
                                 : Token{Token::TagBegin, "{%"});
    expression(type == '{' ? '}' : '%');
  }

  /// Moves past the closing bracket at `at` and the space that it takes along.
  void finish(char close, char sign) {
    at += 2;
    if (sign == '-') {
      while (at < text.size() && isSpace(text[at]))
        ++at;
    } else if (sign != '+' && close != '}' && at < text.size() &&
               text[at] == '\n') {
      ++at; // trim_blocks.
    }
  }

  bool closes(char close, size_t position) const {
    return position + 1 < text.size() && text[position] == close &&
           text[position + 1] == '}';
  }

  void expression(char close) {
    int braces = 0; // Of dictionaries: }} may end two of them.
    while (true) {
      while (at < text.size() && isSpace(text[at]))
        ++at;
      if (at >= text.size())
        fail("a tag without end");
      char c = text[at];
      bool hasSign = (c == '-' || c == '+') && closes(close, at + 1);
      if (braces == 0 && (hasSign || closes(close, at))) {
        at += hasSign;
        tokens.push_back(close == '}' ? Token{Token::OutputEnd, "}}"}
                                      : Token{Token::TagEnd, "%}"});
        finish(close, hasSign ? c : '\0');
        return;
      }
      if (c == '\'' || c == '"') {
        string(c);
      } else if (isDigit(c)) {
        number();
      } else if (isWordBegin(c)) {
        size_t begin = at;
        while (at < text.size() && (isWordBegin(text[at]) || isDigit(text[at])))
          ++at;
        tokens.push_back({Token::Word, text.substr(begin, at - begin)});
      } else {
        braces += c == '{' ? 1 : c == '}' ? -1 : 0;
        symbol();
      }
    }
  }

  void number() {
    size_t begin = at;
    while (at < text.size() && isDigit(text[at]))
      ++at;
    if (at + 1 < text.size() && text[at] == '.' && isDigit(text[at + 1]))
      for (++at; at < text.size() && isDigit(text[at]);)
        ++at;
    std::string digits = text.substr(begin, at - begin);
    if (digits.size() > 15)
      fail("the number " + digits + " is too long");
    if (digits.size() > 1 && digits[0] == '0' && digits[1] != '.')
      fail("malformed number " + digits);
    tokens.push_back({Token::Number, digits});
  }

  void symbol() {
    for (const char *two : {"==", "!=", "<=", ">=", "//", "**"})
      if (text.compare(at, 2, two) == 0) {
        tokens.push_back({Token::Operator, two});
        at += 2;
        return;
      }
    if (text[at] == '\0' || !std::strchr("+-*/%~<>=.:|,()[]{}", text[at]))
      fail(std::string("unexpected character '") + text[at] + "'");
    tokens.push_back({Token::Operator, std::string(1, text[at++])});
  }

  /// A string literal; its escapes are Python's.
  void string(char quote) {
    std::string value;
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (text[at] != '\\') {
        value += text[at];
        continue;
      }
      if (++at == text.size())
        break;
      switch (text[at]) {
      case 'n':
        value += '\n';
        break;
      case 't':
        value += '\t';
        break;
      case 'r':
        value += '\r';
        break;
      case '\\':
      case '\'':
      case '"':
        value += text[at];
        break;
      case '\n': // A line break after a backslash is no part of the string.
        break;
      case 'x':
        appendUtf8(value, hexadecimal(2));
        break;
      case 'u':
        appendUtf8(value, hexadecimal(4));
        break;
      default:
        fail(std::string("the escape \\") + text[at] +
             " in a string is not supported");
      }
    }
    if (at >= text.size())
      fail("a string without end");
    ++at;
    tokens.push_back({Token::String, value});
  }

  char32_t hexadecimal(size_t digits) {
    std::string number = text.substr(at + 1, digits);
    at += digits;
    if (number.size() != digits ||
        number.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      fail("malformed escape in a string");
    auto value = static_cast<char32_t>(std::stoul(number, nullptr, 16));
    if (value >= 0xD800 && value < 0xE000)
      fail("a surrogate in a string");
    return value;
  }

  std::string text;
  size_t at = 0;
  std::vector<Token> tokens;
};

} // namespace

std::vector<Token> buddy::text::jinja::tokenize(std::string_view source) {
  return Lexer(source).run();
}
