//===- MappedFile.cpp - A read-only memory-mapped file --------------------===//

#include "buddy/MappedFile.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace buddy;

namespace {

struct FileDescriptor {
  int value;
  ~FileDescriptor() {
    if (value >= 0)
      close(value);
  }
};

[[noreturn]] void fail(const std::string &path, const char *reason) {
  throw Error(BUDDY_E_IO, path + ": " + reason);
}

} // namespace

MappedFile::MappedFile(const std::string &path) : name(path) {
  FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0)
    fail(path, std::strerror(errno));
  struct stat status;
  if (fstat(file.value, &status) != 0)
    fail(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    fail(path, "not a regular file");
  if (status.st_size == 0)
    return;
  void *address = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ,
                       MAP_SHARED, file.value, 0);
  if (address == MAP_FAILED)
    fail(path, std::strerror(errno));
  start = static_cast<const char *>(address);
  length = static_cast<size_t>(status.st_size);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : start(std::exchange(other.start, nullptr)),
      length(std::exchange(other.length, 0)), name(std::move(other.name)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(start, other.start);
  std::swap(length, other.length);
  std::swap(name, other.name);
  return *this;
}

MappedFile::~MappedFile() {
  if (start)
    munmap(const_cast<char *>(start), length);
}
