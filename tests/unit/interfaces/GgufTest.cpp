//===- GgufTest.cpp - Tests of Gguf ---------------------------------------===//

#include "buddy/Gguf.h"
#include "TestSupport.h"

#include <random>

using namespace buddy;
using namespace buddy::test;

namespace {

void putString(std::string &out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

std::string header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
  std::string out = "GGUF";
  put<uint32_t>(out, version);
  put<uint64_t>(out, tensors);
  put<uint64_t>(out, keys);
  return out;
}

template <typename T>
void putKey(std::string &out, std::string_view key, GgufType type, T value) {
  putString(out, key);
  put(out, static_cast<uint32_t>(type));
  put(out, value);
}

void putTensor(std::string &out, std::string_view name,
               std::initializer_list<uint64_t> sizes, uint32_t type,
               uint64_t offset) {
  putString(out, name);
  put<uint32_t>(out, static_cast<uint32_t>(sizes.size()));
  for (uint64_t size : sizes)
    put(out, size);
  put(out, type);
  put(out, offset);
}

std::string finish(std::string out, size_t dataBytes) {
  out.resize((out.size() + 31) / 32 * 32 + dataBytes, '\0');
  return out;
}

std::string openError(const std::string &contents) {
  TemporaryFile file(contents);
  std::string message = errorOf([&] { Gguf::open(file.path()); });
  EXPECT_CONTAINS(message, file.path());
  return message;
}

/// One key of each kind and two tensors.
std::string example() {
  std::string out = header(2, 6);
  putString(out, "s");
  put(out, static_cast<uint32_t>(GgufType::String));
  putString(out, "text");
  putKey<uint32_t>(out, "u", GgufType::UInt32, 7);
  putKey<float>(out, "f", GgufType::Float32, 0.5f);
  putKey<uint8_t>(out, "b", GgufType::Bool, 1);
  putString(out, "strings");
  put(out, static_cast<uint32_t>(GgufType::Array));
  put(out, static_cast<uint32_t>(GgufType::String));
  put<uint64_t>(out, 2);
  putString(out, "a");
  putString(out, "");
  putString(out, "ints");
  put(out, static_cast<uint32_t>(GgufType::Array));
  put(out, static_cast<uint32_t>(GgufType::Int16));
  put<uint64_t>(out, 2);
  put<int16_t>(out, -1);
  put<int16_t>(out, 2);
  putTensor(out, "x", {4, 2}, 0, 0);
  putTensor(out, "q", {32}, 2, 32);
  return finish(out, 50);
}

TEST(Gguf, ReadsMetadataAndTensors) {
  TemporaryFile file(example());
  Gguf gguf = Gguf::open(file.path());
  EXPECT_EQ(gguf.getString("s"), "text");
  EXPECT_EQ(gguf.getInt("u"), 7);
  EXPECT_EQ(gguf.getFloat("f"), 0.5);
  EXPECT_EQ(gguf.getFloat("u"), 7.0);
  EXPECT_EQ(gguf.getBool("b"), true);
  EXPECT_EQ(gguf.getStrings("strings"),
            (std::vector<std::string_view>{"a", ""}));
  EXPECT_EQ(gguf.getInts("ints"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(gguf.getInt("none"), std::nullopt);
  EXPECT_CONTAINS(errorOf([&] { gguf.getInt("s"); }), "'s'");
  EXPECT_CONTAINS(errorOf([&] { gguf.getInt("ints"); }), "'ints'");
  EXPECT_CONTAINS(errorOf([&] { gguf.getStrings("ints"); }), "'ints'");
  const GgufTensor *x = gguf.findTensor("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->sizes, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(x->byteSize, 32);
  EXPECT_EQ(gguf.findTensor("q")->byteSize, 18);
  EXPECT_EQ(gguf.findTensor("q")->data - x->data, 32);
  EXPECT_EQ(gguf.findTensor("z"), nullptr);
}

TEST(Gguf, HostileFilesAreErrors) {
  EXPECT_CONTAINS(openError(""), "wrong magic");
  EXPECT_CONTAINS(openError("GGML1234"), "wrong magic");
  EXPECT_CONTAINS(openError(header(0, 0, 99)), "version 99");
  EXPECT_CONTAINS(openError(header(0, UINT64_MAX)), "truncated");
  EXPECT_CONTAINS(openError(header(UINT64_MAX, 0)), "truncated in the tensor");

  std::string longName = header(0, 1);
  put<uint64_t>(longName, UINT64_MAX);
  EXPECT_CONTAINS(openError(longName + "abc"), "truncated in the name");

  std::string unknownType = header(0, 1);
  putKey<uint64_t>(unknownType, "k", static_cast<GgufType>(77), 0);
  EXPECT_CONTAINS(openError(unknownType), "'k' has the unsupported type 77");

  for (GgufType type : {GgufType::UInt8, GgufType::UInt64, GgufType::String}) {
    std::string longArray = header(0, 1);
    putString(longArray, "k");
    put(longArray, static_cast<uint32_t>(GgufType::Array));
    put(longArray, static_cast<uint32_t>(type));
    put<uint64_t>(longArray, uint64_t(1) << 61);
    EXPECT_CONTAINS(openError(longArray + "0123456789"), "'k'");
  }

  std::string twice = header(0, 2);
  putKey<uint8_t>(twice, "k", GgufType::UInt8, 1);
  putKey<uint8_t>(twice, "k", GgufType::UInt8, 1);
  EXPECT_CONTAINS(openError(twice), "'k' occurs twice");

  auto tensor = [](std::initializer_list<uint64_t> sizes, uint32_t type,
                   uint64_t offset) {
    std::string out = header(1, 0);
    putTensor(out, "t", sizes, type, offset);
    return openError(finish(out, 64));
  };
  EXPECT_CONTAINS(tensor({17}, 0, 0), "'t' (68 bytes) reaches beyond the end");
  EXPECT_CONTAINS(tensor({1}, 0, 64), "beyond the end");
  EXPECT_CONTAINS(tensor({1}, 0, UINT64_MAX - 31), "beyond the end");
  EXPECT_CONTAINS(tensor({1}, 0, 1), "'t' is not aligned");
  EXPECT_CONTAINS(tensor({1}, 500, 0), "'t' has the unknown type 500");
  EXPECT_CONTAINS(tensor({33}, 2, 0), "not a multiple");
  EXPECT_CONTAINS(tensor({uint64_t(1) << 40, uint64_t(1) << 40}, 0, 0),
                  "larger than the address space");
  EXPECT_CONTAINS(tensor({uint64_t(1) << 63}, 0, 0), "has a dimension");
  EXPECT_CONTAINS(tensor({1, 1, 1, 1, 1}, 0, 0), "5 dimensions");

  for (uint32_t alignment : {0u, 3u, 1u << 31}) {
    std::string out = header(0, 1);
    putKey<uint32_t>(out, "general.alignment", GgufType::UInt32, alignment);
    EXPECT_CONTAINS(openError(out), "power of two");
  }
}

TEST(Gguf, EveryTruncationAndFlippedByteIsSafe) {
  std::string good = example();
  TemporaryFile file("");
  for (size_t length = 0; length < good.size(); ++length) {
    file.write(good.substr(0, length));
    errorOf([&] { Gguf::open(file.path()); });
  }
  std::mt19937 random(2);
  for (size_t at = 0; at < good.size(); ++at)
    for (int i = 0; i < 2; ++i) {
      std::string bad = good;
      bad[at] = static_cast<char>(random());
      file.write(bad);
      try {
        Gguf gguf = Gguf::open(file.path());
        for (const GgufTensor &tensor : gguf.tensors()) {
          ASSERT_LE(tensor.byteSize, 64);
          // Reading beyond the mapping would end the test.
          std::string copy(tensor.data, tensor.byteSize);
          EXPECT_EQ(copy.size(), static_cast<size_t>(tensor.byteSize));
        }
        gguf.getStrings("strings");
      } catch (const Error &) {
      }
    }
}

} // namespace
