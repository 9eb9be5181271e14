//===- MappedFile.h - A read-only memory-mapped file ------------*- C++ -*-===//
//
// The pages are shared with every other process that maps the same file and
// are read from disk when first touched.  The file must not be truncated while
// it is mapped.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_MAPPEDFILE_H
#define BUDDY_MAPPEDFILE_H

#include <cstddef>
#include <string>
#include <string_view>

namespace buddy {

/// Movable, not copyable.  The address of the contents survives a move.
class MappedFile {
public:
  MappedFile() = default;
  /// Throws buddy::Error (BUDDY_E_IO) that names the path and the reason.
  explicit MappedFile(const std::string &path);
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// An empty file has no data and size 0.
  const char *data() const noexcept { return start; }
  size_t size() const noexcept { return length; }
  std::string_view contents() const noexcept { return {start, length}; }
  const std::string &path() const noexcept { return name; }

private:
  const char *start = nullptr;
  size_t length = 0;
  std::string name;
};

} // namespace buddy

#endif // BUDDY_MAPPEDFILE_H
