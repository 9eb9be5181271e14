//===- command_line.h - What the programs' command lines share --*- C++ -*-===//

#ifndef BUDDY_EXAMPLES_COMMAND_LINE_H
#define BUDDY_EXAMPLES_COMMAND_LINE_H

#include "buddy/Context.h"
#include "buddy/Error.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace command_line {

/// Where the bundle lies unless -m says otherwise: what program.cmake set, or
/// the folder of the program.
inline std::string defaultBundle() {
#ifdef BUDDY_PROGRAM_BUNDLE
  return BUDDY_PROGRAM_BUNDLE;
#else
  std::error_code error;
  auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : program.parent_path().string();
#endif
}

[[noreturn]] inline void fail(const std::string &message) {
  throw buddy::Error(BUDDY_E_ARGUMENT, message);
}

/// The number that `text` is, all of it, between `least` and `most`.
inline int64_t integer(const std::string &flag, const char *text, int64_t least,
                       int64_t most = INT64_MAX) {
  char *end = nullptr;
  errno = 0;
  long long value = std::strtoll(text, &end, 10);
  if (end == text || *end || errno || value < least || value > most)
    fail(flag + " '" + text + "': expected a whole number of at least " +
         std::to_string(least) +
         (value > most || errno ? " and at most " + std::to_string(most) : ""));
  return value;
}

/// The value of -t.
inline int threads(const char *text) {
  return int(integer("-t", text, 1, 4096));
}

} // namespace command_line

#endif // BUDDY_EXAMPLES_COMMAND_LINE_H
