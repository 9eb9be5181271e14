//===- JinjaParser.cpp - Parser of chat templates -------------------------===//

#include "Jinja.h"
#include "JinjaLexer.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

using namespace buddy;
using namespace buddy::text::jinja;

void buddy::text::jinja::fail(const std::string &what) {
  throw Error(BUDDY_E_UNSUPPORTED, what);
}

namespace {

using Kind = Node::Kind;
using NodePtr = std::unique_ptr<Node>;

template <typename... Children>
NodePtr make(Kind kind, std::string text, Children... children) {
  auto node = std::make_unique<Node>(kind, std::move(text));
  (node->children.push_back(std::move(children)), ...);
  return node;
}

/// A recursive-descent parser; the functions from expression() to primary() are
/// Jinja's precedence levels from loosest to tightest.
class Parser {
public:
  explicit Parser(std::string_view source) : tokens(tokenize(source)) {}

  NodePtr run() {
    NodePtr body = block();
    if (!at(Token::End))
      fail("unexpected tag '" + peek().text + "'");
    return body;
  }

private:
  /// Parsing recurses as deep as the template nests.
  struct Depth {
    explicit Depth(int &count) : count(count) {
      if (++count > 200)
        fail("nested too deeply");
    }
    ~Depth() { --count; }
    int &count;
  };

  const Token &peek(size_t ahead = 0) const {
    return tokens[std::min(position + ahead, tokens.size() - 1)];
  }
  bool at(Token::Kind kind) const { return peek().kind == kind; }
  bool at(Token::Kind kind, const char *text) const {
    return at(kind) && peek().text == text;
  }
  Token take() {
    Token token = peek();
    position += position + 1 < tokens.size();
    return token;
  }
  bool accept(Token::Kind kind, const char *text) {
    if (!at(kind, text))
      return false;
    take();
    return true;
  }
  bool acceptOperator(const char *text) {
    return accept(Token::Operator, text);
  }
  bool acceptWord(const char *text) { return accept(Token::Word, text); }
  void expect(Token::Kind kind, const char *text) {
    if (!accept(kind, text))
      fail(std::string("expected '") + text + "' before '" + peek().text + "'");
  }
  std::string takeName() {
    if (!at(Token::Word))
      fail("expected a name before '" + peek().text + "'");
    return take().text;
  }
  void endTag() { expect(Token::TagEnd, "%}"); }

  /// Whether the next tag is one of those that end a block.
  bool atTag(std::initializer_list<const char *> names) const {
    if (!at(Token::TagBegin))
      return false;
    for (const char *name : names)
      if (peek(1).text == name)
        return true;
    return false;
  }
  /// Moves past {% name %}.
  void closeTag(const char *name) {
    expect(Token::TagBegin, "{%");
    expect(Token::Word, name);
    endTag();
  }

  NodePtr block() {
    Depth guard(depth);
    NodePtr result = make(Kind::Block, "");
    while (!at(Token::End) && !atTag({"endif", "elif", "else", "endfor",
                                      "endset", "endgeneration"})) {
      if (at(Token::Text)) {
        result->children.push_back(make(Kind::Text, take().text));
      } else if (accept(Token::OutputBegin, "{{")) {
        result->children.push_back(make(Kind::Output, "", expression()));
        expect(Token::OutputEnd, "}}");
      } else {
        expect(Token::TagBegin, "{%");
        result->children.push_back(statement());
      }
    }
    return result;
  }

  NodePtr statement() {
    std::string name = takeName();
    if (name == "if")
      return ifStatement();
    if (name == "for")
      return forStatement();
    if (name == "set")
      return setStatement();
    if (name == "break" || name == "continue") {
      endTag();
      return make(name == "break" ? Kind::Break : Kind::Continue, "");
    }
    if (name == "generation") { // Marks what the model wrote; prints nothing.
      endTag();
      NodePtr body = block();
      closeTag("endgeneration");
      return body;
    }
    fail("the statement '" + name + "' is not supported");
  }

  NodePtr ifStatement() {
    Depth guard(depth);
    NodePtr condition = expression();
    endTag();
    NodePtr then = block();
    NodePtr otherwise;
    expect(Token::TagBegin, "{%");
    if (acceptWord("elif")) {
      otherwise = ifStatement();
    } else {
      if (acceptWord("else")) {
        endTag();
        otherwise = block();
        expect(Token::TagBegin, "{%");
      }
      expect(Token::Word, "endif");
      endTag();
    }
    return make(Kind::If, "", std::move(condition), std::move(then),
                std::move(otherwise));
  }

  NodePtr forStatement() {
    std::vector<std::string> names;
    do
      names.push_back(takeName());
    while (acceptOperator(","));
    expect(Token::Word, "in");
    // A condition after the iterable is a filter, not a choice.
    NodePtr iterable = orExpression();
    NodePtr filter, otherwise;
    if (acceptWord("if"))
      filter = expression();
    if (acceptWord("recursive"))
      fail("recursive loops are not supported");
    endTag();
    NodePtr body = block();
    expect(Token::TagBegin, "{%");
    if (acceptWord("else")) {
      endTag();
      otherwise = block();
      expect(Token::TagBegin, "{%");
    }
    expect(Token::Word, "endfor");
    endTag();
    NodePtr node = make(Kind::For, "", std::move(iterable), std::move(filter),
                        std::move(body), std::move(otherwise));
    node->names = std::move(names);
    return node;
  }

  NodePtr setStatement() {
    std::string name = takeName();
    std::vector<std::string> attributes;
    if (acceptOperator("."))
      attributes.push_back(takeName());
    NodePtr node;
    if (acceptOperator("=")) {
      node = make(Kind::Set, name, expression());
      endTag();
    } else if (attributes.empty() && at(Token::TagEnd)) {
      endTag();
      node = make(Kind::SetBlock, name, block());
      closeTag("endset");
    } else {
      fail("the form of 'set " + name + "' is not supported");
    }
    node->names = std::move(attributes);
    return node;
  }

  NodePtr expression() {
    Depth guard(depth);
    NodePtr value = orExpression();
    while (acceptWord("if")) {
      NodePtr condition = orExpression();
      NodePtr otherwise;
      if (acceptWord("else"))
        otherwise = expression();
      value = make(Kind::Choice, "", std::move(value), std::move(condition),
                   std::move(otherwise));
    }
    return value;
  }

  NodePtr orExpression() {
    NodePtr left = andExpression();
    while (acceptWord("or"))
      left = make(Kind::Binary, "or", std::move(left), andExpression());
    return left;
  }

  NodePtr andExpression() {
    NodePtr left = notExpression();
    while (acceptWord("and"))
      left = make(Kind::Binary, "and", std::move(left), notExpression());
    return left;
  }

  NodePtr notExpression() {
    Depth guard(depth);
    if (acceptWord("not"))
      return make(Kind::Unary, "not", notExpression());
    return compare();
  }

  NodePtr compare() {
    NodePtr first = sum();
    NodePtr node;
    while (true) {
      std::string name;
      for (const char *op : {"==", "!=", "<=", ">=", "<", ">"})
        if (name.empty() && acceptOperator(op))
          name = op;
      if (name.empty() && acceptWord("in"))
        name = "in";
      if (name.empty() && at(Token::Word, "not") && peek(1).text == "in") {
        take();
        take();
        name = "not in";
      }
      if (name.empty())
        return node ? std::move(node) : std::move(first);
      if (!node)
        node = make(Kind::Compare, "", std::move(first));
      node->names.push_back(name);
      node->children.push_back(sum());
    }
  }

  NodePtr sum() {
    NodePtr left = concatenation();
    while (at(Token::Operator, "+") || at(Token::Operator, "-")) {
      std::string name = take().text;
      left = make(Kind::Binary, name, std::move(left), concatenation());
    }
    return left;
  }

  NodePtr concatenation() {
    NodePtr left = product();
    while (acceptOperator("~"))
      left = make(Kind::Binary, "~", std::move(left), product());
    return left;
  }

  NodePtr product() {
    NodePtr left = unary();
    while (at(Token::Operator, "*") || at(Token::Operator, "/") ||
           at(Token::Operator, "//") || at(Token::Operator, "%")) {
      std::string name = take().text;
      left = make(Kind::Binary, name, std::move(left), unary());
    }
    return left;
  }

  NodePtr unary() {
    Depth guard(depth);
    if (acceptOperator("-"))
      return make(Kind::Unary, "-", filters(unary()));
    if (acceptOperator("+"))
      return filters(unary());
    return filters(postfix(primary()));
  }

  NodePtr postfix(NodePtr value) {
    while (true) {
      if (acceptOperator(".")) {
        std::string name = takeName();
        if (at(Token::Operator, "(")) {
          value = make(Kind::Method, name, std::move(value));
          arguments(*value);
        } else {
          value = make(Kind::Attribute, name, std::move(value));
        }
      } else if (acceptOperator("[")) {
        value = subscript(std::move(value));
      } else if (at(Token::Operator, "(")) {
        if (value->kind != Kind::Name)
          fail("only named functions can be called");
        value = make(Kind::Call, value->text);
        arguments(*value);
      } else {
        return value;
      }
    }
  }

  NodePtr subscript(NodePtr object) {
    NodePtr parts[3];
    int count = 0;
    bool isSlice = false;
    while (!acceptOperator("]")) {
      if (acceptOperator(":")) {
        isSlice = true;
        if (++count > 2)
          fail("malformed slice");
      } else if (parts[count]) {
        fail("expected ']' before '" + peek().text + "'");
      } else {
        parts[count] = expression();
      }
    }
    if (!isSlice && !parts[0])
      fail("empty subscript");
    if (!isSlice)
      return make(Kind::Item, "", std::move(object), std::move(parts[0]));
    return make(Kind::Slice, "", std::move(object), std::move(parts[0]),
                std::move(parts[1]), std::move(parts[2]));
  }

  /// Filters and tests.
  NodePtr filters(NodePtr value) {
    while (true) {
      if (acceptOperator("|")) {
        value = make(Kind::Filter, takeName(), std::move(value));
        if (at(Token::Operator, "("))
          arguments(*value);
      } else if (acceptWord("is")) {
        bool negate = acceptWord("not");
        value = make(Kind::Test, takeName(), std::move(value));
        if (at(Token::Operator, "("))
          arguments(*value);
        else if (startsOperand())
          value->children.push_back(postfix(primary()));
        if (negate)
          value = make(Kind::Unary, "not", std::move(value));
      } else {
        return value;
      }
    }
  }

  /// Whether what follows a test's name is its argument.
  bool startsOperand() const {
    if (at(Token::Word)) {
      for (const char *word : {"and", "or", "if", "else", "in", "not", "is"})
        if (peek().text == word)
          return false;
      return true;
    }
    return at(Token::String) || at(Token::Number);
  }

  void arguments(Node &call) {
    expect(Token::Operator, "(");
    while (!acceptOperator(")")) {
      if (at(Token::Word) && peek(1).kind == Token::Operator &&
          peek(1).text == "=") {
        std::string name = takeName();
        take();
        call.keywords.emplace_back(name, expression());
      } else {
        call.children.push_back(expression());
      }
      if (!acceptOperator(",") && !at(Token::Operator, ")"))
        fail("expected ')' before '" + peek().text + "'");
    }
  }

  NodePtr primary() {
    if (at(Token::String)) {
      NodePtr node = make(Kind::Literal, "");
      std::string text = take().text;
      while (at(Token::String)) // Adjacent literals are one.
        text += take().text;
      node->value = text;
      return node;
    }
    if (at(Token::Number)) {
      NodePtr node = make(Kind::Literal, "");
      node->value = Value::parse(take().text);
      return node;
    }
    if (at(Token::Word)) {
      std::string name = take().text;
      NodePtr literal = make(Kind::Literal, "");
      if (name == "true" || name == "True")
        literal->value = true;
      else if (name == "false" || name == "False")
        literal->value = false;
      else if (name != "none" && name != "None")
        return make(Kind::Name, name);
      return literal;
    }
    if (acceptOperator("("))
      return parenthesized();
    if (acceptOperator("["))
      return list("]");
    if (acceptOperator("{"))
      return dictionary();
    fail("unexpected '" + peek().text + "'");
  }

  NodePtr parenthesized() {
    if (at(Token::Operator, ")"))
      return list(")");
    NodePtr first = expression();
    if (acceptOperator(")"))
      return first;
    expect(Token::Operator, ",");
    NodePtr tuple = list(")");
    tuple->children.insert(tuple->children.begin(), std::move(first));
    return tuple;
  }

  NodePtr list(const char *end) {
    NodePtr node = make(Kind::List, "");
    while (!acceptOperator(end)) {
      node->children.push_back(expression());
      if (!acceptOperator(",") && !at(Token::Operator, end))
        fail(std::string("expected '") + end + "' before '" + peek().text +
             "'");
    }
    return node;
  }

  NodePtr dictionary() {
    NodePtr node = make(Kind::Dict, "");
    while (!acceptOperator("}")) {
      node->children.push_back(expression());
      expect(Token::Operator, ":");
      node->children.push_back(expression());
      if (!acceptOperator(",") && !at(Token::Operator, "}"))
        fail("expected '}' before '" + peek().text + "'");
    }
    return node;
  }

  std::vector<Token> tokens;
  size_t position = 0;
  int depth = 0;
};

} // namespace

std::unique_ptr<Node> buddy::text::jinja::parse(std::string_view source) {
  return Parser(source).run();
}
