//===- Regex.h - Unicode regular expressions --------------------*- C++ -*-===//
//
// Tokenizer files carry patterns in Oniguruma's Ruby syntax, which Hugging
// Face's `tokenizers` uses.  They are matched with PCRE2 after the few escapes
// that mean something else there are rewritten; a construct whose meaning is
// not known to agree is an error, never a guess.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_REGEX_H
#define BUDDY_LIB_TEXT_REGEX_H

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace buddy::text {

class Regex {
public:
  /// Throws buddy::Error that shows the pattern.
  explicit Regex(std::string_view pattern);

  /// A pattern that matches `literal` itself.
  static Regex literal(std::string_view literal);

  /// Byte ranges of the non-overlapping matches from left to right.  `text` is
  /// valid UTF-8.
  void findAll(std::string_view text,
               std::vector<std::pair<size_t, size_t>> &matches) const;

private:
  struct Deleter {
    void operator()(void *code) const;
  };
  std::string source;
  std::unique_ptr<void, Deleter> code; ///< pcre2_code.
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_REGEX_H
