//===- JinjaLexer.h - Tokens of chat templates ------------------*- C++ -*-===//

#ifndef BUDDY_LIB_TEXT_JINJALEXER_H
#define BUDDY_LIB_TEXT_JINJALEXER_H

#include <string>
#include <string_view>
#include <vector>

namespace buddy::text::jinja {

struct Token {
  enum Kind {
    Text,
    OutputBegin, ///< {{
    OutputEnd,   ///< }}
    TagBegin,    ///< {%
    TagEnd,      ///< %}
    Word,
    String, ///< `text` has the escapes resolved.
    Number,
    Operator,
    End,
  };
  Kind kind;
  std::string text;
};

/// The tokens, the last of which is End.  White space around tags is removed as
/// the tags' signs, trim_blocks and lstrip_blocks say.
std::vector<Token> tokenize(std::string_view source);

} // namespace buddy::text::jinja

#endif // BUDDY_LIB_TEXT_JINJALEXER_H
