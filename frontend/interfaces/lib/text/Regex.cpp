//===- Regex.cpp - Unicode regular expressions ----------------------------===//

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "Regex.h"
#include "Unicode.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <cstdint>
#include <cstring>

using namespace buddy;
using namespace buddy::text;

namespace {

[[noreturn]] void fail(std::string_view pattern, const std::string &what) {
  throw Error(BUDDY_E_UNSUPPORTED,
              "regular expression /" + std::string(pattern) + "/: " + what);
}

/// Rewrites Oniguruma's syntax for PCRE2.
///
/// - \s: White_Space there; PCRE2's also has U+180E.
/// - \w: Alphabetic, M, Nd and Pc there; PCRE2's is L, N, Mn and Pc.
/// - \h: a hexadecimal digit there, horizontal space in PCRE2.
/// - [a[bc]] and [a&&b] are set operations there.
class Translator {
public:
  explicit Translator(std::string_view pattern) : pattern(pattern) {}

  std::string run() {
    for (at = 0; at < pattern.size();) {
      char c = pattern[at];
      if (c == '\\') {
        escape();
      } else if (inClass) {
        classCharacter(c);
      } else {
        if (c == '[') {
          inClass = true;
          classStart = at + 1;
          if (classStart < pattern.size() && pattern[classStart] == '^')
            ++classStart;
        }
        if (startsWith(pattern.substr(at), "(?"))
          group();
        result += c;
        ++at;
      }
    }
    return std::move(result);
  }

private:
  void classCharacter(char c) {
    // A bracket in first place is a literal, as in PCRE2.
    if (c == ']' && at != classStart)
      inClass = false;
    else if (c == '[')
      fail(pattern, "nested character classes are not supported");
    else if (startsWith(pattern.substr(at), "&&"))
      fail(pattern, "intersections of character classes are not supported");
    result += c;
    ++at;
  }

  void group() {
    // Options mean the same for i; (?m) is Ruby's dot-matches-newline.
    for (std::string_view known :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:"})
      if (startsWith(pattern.substr(at), known))
        return;
    fail(pattern, "unsupported group at offset " + std::to_string(at));
  }

  void escape() {
    if (at + 1 == pattern.size())
      fail(pattern, "ends in a backslash");
    char c = pattern[at + 1];
    at += 2;
    switch (c) {
    case 's':
      result += "\\p{White_Space}";
      return;
    case 'S':
      result += "\\P{White_Space}";
      return;
    case 'd':
      result += "\\p{Nd}";
      return;
    case 'D':
      result += "\\P{Nd}";
      return;
    case 'w':
      result += inClass ? Word : "[" + Word + "]";
      return;
    case 'W':
      if (inClass)
        fail(pattern, "\\W in a character class is not supported");
      result += "[^" + Word + "]";
      return;
    case 'p':
    case 'P':
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'v':
    case 'x':
    case 'A':
    case 'z':
    case 'Z':
    case 'X':
      // \v is one character in Oniguruma, any vertical space in PCRE2.
      result += c == 'v' ? std::string("\\x0B") : std::string{'\\', c};
      return;
    case 'u': {
      std::string digits(pattern.substr(at, 4));
      if (digits.size() != 4 ||
          digits.find_first_not_of("0123456789abcdefABCDEF") !=
              std::string::npos)
        fail(pattern, "\\u without four hexadecimal digits");
      result += "\\x{" + digits + "}";
      at += 4;
      return;
    }
    default:
      break;
    }
    bool isAlphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z');
    if (isAlphanumeric)
      fail(pattern, std::string("the escape \\") + c + " is not supported");
    result += '\\';
    result += c;
  }

  const std::string Word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
  std::string_view pattern;
  std::string result;
  size_t at = 0;
  size_t classStart = 0;
  bool inClass = false;
};

struct CompileContext {
  pcre2_compile_context *value = pcre2_compile_context_create(nullptr);
  CompileContext() {
    if (value)
      pcre2_set_newline(value, PCRE2_NEWLINE_LF);
  }
  ~CompileContext() { pcre2_compile_context_free(value); }
};

/// Patterns have no captures that anyone reads, so one pair of offsets serves
/// all of a thread's matches.
pcre2_match_data *threadMatchData() {
  struct Holder {
    pcre2_match_data *value = pcre2_match_data_create(1, nullptr);
    ~Holder() { pcre2_match_data_free(value); }
  };
  static thread_local Holder holder;
  if (!holder.value)
    throw Error(BUDDY_E_NOMEM, "no memory for a regular expression match");
  return holder.value;
}

} // namespace

void Regex::Deleter::operator()(void *code) const {
  pcre2_code_free(static_cast<pcre2_code *>(code));
}

Regex::Regex(std::string_view pattern) : source(pattern) {
  std::string translated = Translator(pattern).run();
  CompileContext context;
  int error;
  PCRE2_SIZE offset;
  // In Ruby's syntax ^ and $ always match at line breaks.
  auto *compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context.value);
  if (!compiled) {
    char message[256];
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR *>(message),
                            sizeof(message));
    fail(pattern, message);
  }
  code.reset(compiled);
  // Where there is no JIT the interpreter gives the same matches.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
}

Regex Regex::literal(std::string_view literal) {
  std::string escaped;
  for (char c : literal) {
    if (std::strchr("\\^$.[]|()?*+{}#&-", c) && c != '\0')
      escaped += '\\';
    escaped += c;
  }
  return Regex(escaped);
}

void Regex::findAll(std::string_view text,
                    std::vector<std::pair<size_t, size_t>> &matches) const {
  matches.clear();
  if (text.empty())
    return;
  auto *compiled = static_cast<pcre2_code *>(code.get());
  pcre2_match_data *data = threadMatchData();
  auto *subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t from = 0, lastEnd = std::string_view::npos;
  while (from <= text.size()) {
    int rc = pcre2_match(compiled, subject, text.size(), from,
                         PCRE2_NO_UTF_CHECK, data, nullptr);
    // The JIT's stack is small and fixed, the interpreter's grows.
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
      rc = pcre2_match(compiled, subject, text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, nullptr);
    if (rc == PCRE2_ERROR_NOMATCH)
      return;
    if (rc < 0) {
      char message[256];
      pcre2_get_error_message(rc, reinterpret_cast<PCRE2_UCHAR *>(message),
                              sizeof(message));
      throw Error(BUDDY_E_CHECK,
                  "regular expression /" + source + "/: " + message);
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data);
    size_t begin = range[0], end = range[1];
    // An empty match next to the match before it is no match.
    if (begin == end && end == lastEnd) {
      if (from >= text.size())
        return;
      from += utf8Length(text[from]);
      continue;
    }
    matches.emplace_back(begin, end);
    from = lastEnd = end;
  }
}
