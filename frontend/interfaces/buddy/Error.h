//===- Error.h - The one exception type of the containers -------*- C++ -*-===//
//
// Every container reports a failure by throwing buddy::Error: one line that
// names the file, tensor or argument at fault, and the code of the error.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_ERROR_H
#define BUDDY_ERROR_H

#include <cstdint>
#include <stdexcept>
#include <string>

namespace buddy {

/// A failure of a container or of a compiled entry point.
class Error : public std::runtime_error {
public:
  /// `code` is one of the BUDDY_E_* values of Context.h.
  Error(int32_t code, const std::string &message)
      : std::runtime_error(message), errorCode(code) {}

  int32_t code() const noexcept { return errorCode; }

private:
  int32_t errorCode;
};

} // namespace buddy

#endif // BUDDY_ERROR_H
