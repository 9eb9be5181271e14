//===- TestSupport.h - What the containers' tests share ---------*- C++ -*-===//

#ifndef BUDDY_TESTS_UNIT_INTERFACES_TESTSUPPORT_H
#define BUDDY_TESTS_UNIT_INTERFACES_TESTSUPPORT_H

#include "buddy/Error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace buddy::test {

/// A file that goes away with the test.
class TemporaryFile {
public:
  explicit TemporaryFile(std::string_view contents,
                         const std::string &suffix = "") {
    std::string pattern = ::testing::TempDir() + "buddy-XXXXXX" + suffix;
    int descriptor = mkstemps(pattern.data(), static_cast<int>(suffix.size()));
    EXPECT_GE(descriptor, 0);
    close(descriptor);
    name = pattern;
    write(contents);
  }
  TemporaryFile(const TemporaryFile &) = delete;
  ~TemporaryFile() { std::remove(name.c_str()); }

  void write(std::string_view contents) const {
    std::ofstream file(name, std::ios::binary | std::ios::trunc);
    file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  }
  const std::string &path() const { return name; }

private:
  std::string name;
};

/// A folder that goes away with the test, and its files with it.
class TemporaryFolder {
public:
  TemporaryFolder() : name(::testing::TempDir() + "buddy-XXXXXX") {
    EXPECT_NE(mkdtemp(name.data()), nullptr);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(name, error);
  }

  void write(const std::string &file, std::string_view contents) const {
    std::ofstream stream(name + "/" + file, std::ios::binary);
    stream.write(contents.data(),
                 static_cast<std::streamsize>(contents.size()));
  }
  const std::string &path() const { return name; }

private:
  std::string name;
};

/// The message of the buddy::Error that `action` throws; a failure if none.
template <typename Action> std::string errorOf(Action action) {
  try {
    action();
  } catch (const buddy::Error &error) {
    std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// Appends a number as it lies in memory (the formats are little-endian).
template <typename T> void put(std::string &out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

#define EXPECT_CONTAINS(text, part)                                            \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

} // namespace buddy::test

#endif // BUDDY_TESTS_UNIT_INTERFACES_TESTSUPPORT_H
