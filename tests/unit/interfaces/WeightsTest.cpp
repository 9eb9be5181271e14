//===- WeightsTest.cpp - Tests of Weights ---------------------------------===//

#include "buddy/Weights.h"
#include "TestSupport.h"

#include <cmath>
#include <random>

using namespace buddy;
using namespace buddy::test;

namespace {

std::string safetensors(const std::string &header, std::string_view data) {
  std::string result;
  put<uint64_t>(result, header.size());
  return result + header + std::string(data);
}

/// A header of one tensor 'w', padded so that the data is aligned.
std::string entry(const std::string &dtype, const std::string &shape,
                  const std::string &offsets) {
  std::string header = R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape +
                       R"(,"data_offsets":)" + offsets + "}}";
  header.resize((header.size() + 63) / 64 * 64 - 8 + 64, ' ');
  return header;
}

std::string openError(const std::string &contents) {
  TemporaryFile file(contents);
  std::string message = errorOf([&] { Weights::open(file.path()); });
  EXPECT_CONTAINS(message, file.path());
  return message;
}

TEST(Weights, ReadsTensors) {
  std::string data;
  for (float value : {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f})
    put(data, value);
  put(data, BFloat16(0.5f));
  std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},)"
      R"("e":{"dtype":"I64","shape":[0,7],"data_offsets":[24,24]},)"
      R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  header.resize(248, ' ');
  TemporaryFile file(safetensors(header, data));
  Weights weights = Weights::open(file.path());
  EXPECT_EQ(weights.size(), 26);
  EXPECT_EQ(weights.tensors().size(), 3u);
  EXPECT_EQ(weights.metadata().at("format"), "pt");
  auto w = weights.tensor<float, 2>("w");
  EXPECT_EQ(w.at(1, 2), 6.0f);
  EXPECT_EQ(static_cast<const void *>(w.data()), weights.data());
  EXPECT_EQ(float(weights.tensor<BFloat16, 0>("b")()), 0.5f);
  EXPECT_TRUE((weights.tensor<int64_t, 2>("e").empty()));
  EXPECT_CONTAINS(errorOf([&] { weights.tensor<float, 1>("w"); }), "'w'");
  EXPECT_CONTAINS(errorOf([&] { weights.tensor<double, 2>("w"); }), "F32");
  EXPECT_CONTAINS(errorOf([&] { weights.info("none"); }), "'none'");
  Weights moved = std::move(weights);
  EXPECT_EQ((moved.tensor<float, 2>("w")(0, 0)), 1.0f);
}

TEST(Weights, UnalignedTensorIsAnError) {
  std::string data(5, '\0');
  TemporaryFile file(
      safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                  data));
  Weights weights = Weights::open(file.path());
  EXPECT_EQ(weights.info("w").offset, 1);
  bool aligned = reinterpret_cast<uintptr_t>(weights.data()) % 4 == 3;
  if (!aligned)
    EXPECT_CONTAINS(errorOf([&] { weights.tensor<float, 1>("w"); }),
                    "'w' is not aligned");
}

TEST(Weights, HostileFilesAreErrors) {
  const std::string eight(8, '\0');
  EXPECT_CONTAINS(openError(""), "not a safetensors file");
  EXPECT_CONTAINS(openError("1234567"), "not a safetensors file");
  EXPECT_CONTAINS(openError(std::string(8, '\xFF')), "not a safetensors file");
  EXPECT_CONTAINS(openError(safetensors("{}", "").substr(0, 9)), "truncated");
  EXPECT_CONTAINS(openError(safetensors("", "")), "no JSON object");
  EXPECT_CONTAINS(openError(safetensors("[]", "")), "no JSON object");
  EXPECT_CONTAINS(openError(safetensors("{\"a\":", "")), "malformed header");
  EXPECT_CONTAINS(openError(safetensors("{\"a\":1}", "")), "'a' has no dtype");
  EXPECT_CONTAINS(openError(safetensors("{\"a\xFF\":1}", "")), "malformed");
  EXPECT_CONTAINS(openError(safetensors(R"({"__metadata__":{"k":1}})", "")),
                  "'k' is not a string");
  auto bad = [&](const char *dtype, const char *shape, const char *offsets) {
    return openError(safetensors(entry(dtype, shape, offsets), eight));
  };
  EXPECT_CONTAINS(bad("F99", "[2]", "[0,8]"), "'w' has the dtype F99");
  EXPECT_CONTAINS(bad("F32", "[3]", "[0,8]"), "need 12");
  EXPECT_CONTAINS(bad("F32", "[-2]", "[0,8]"), "malformed shape");
  EXPECT_CONTAINS(bad("F32", "[2.0]", "[0,8]"), "malformed shape");
  EXPECT_CONTAINS(bad("F32", "2", "[0,8]"), "malformed shape");
  EXPECT_CONTAINS(bad("F32", "[4294967296,4294967296]", "[0,8]"),
                  "larger than the address space");
  EXPECT_CONTAINS(bad("F32", "[9223372036854775809]", "[0,8]"),
                  "malformed shape");
  EXPECT_CONTAINS(bad("F32", "[2]", "[8,0]"), "ends before it begins");
  EXPECT_CONTAINS(bad("F32", "[2]", "[4,12]"), "truncated or malformed");
  EXPECT_CONTAINS(bad("F32", "[2]", "[0]"), "malformed data_offsets");
  EXPECT_CONTAINS(bad("F32", "[2]", "[0,18446744073709551615]"),
                  "malformed data_offsets");
  EXPECT_CONTAINS(bad("F32", "[1]", "[4,8]"), "a hole");
  EXPECT_CONTAINS(bad("F32", "[1]", "[0,4]"), "4 bytes after the last");
  EXPECT_CONTAINS(
      openError(safetensors(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
          R"("b":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})",
          eight)),
      "'b' overlaps");
  EXPECT_CONTAINS(errorOf([] { Weights::open("/nonexistent/w"); }),
                  "/nonexistent/w: No such file");
  EXPECT_CONTAINS(errorOf([] { Weights::open("/"); }), "not a regular file");
}

TEST(Weights, EveryTruncationAndFlippedByteIsSafe) {
  std::string good =
      safetensors(entry("F32", "[2]", "[0,8]"), std::string(8, '\1'));
  TemporaryFile file("");
  for (size_t length = 0; length < good.size(); ++length) {
    file.write(good.substr(0, length));
    errorOf([&] { Weights::open(file.path()); });
  }
  std::mt19937 random(1);
  for (size_t at = 0; at + 8 < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(random());
    file.write(bad);
    try {
      Weights weights = Weights::open(file.path());
      for (const auto &[name, info] : weights.tensors())
        EXPECT_EQ(info.byteSize, 8);
    } catch (const Error &) {
    }
  }
}

TEST(DType, HalfTypesRoundTripAndRound) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Float16 half;
    half.bits = static_cast<uint16_t>(bits);
    BFloat16 brain;
    brain.bits = half.bits;
    if (!std::isnan(float(half))) {
      EXPECT_EQ(Float16(float(half)).bits, bits);
    }
    if (!std::isnan(float(brain))) {
      EXPECT_EQ(BFloat16(float(brain)).bits, bits);
    }
  }
  EXPECT_EQ(float(Float16(65520.0f)), INFINITY);
  EXPECT_EQ(float(Float16(65519.0f)), 65504.0f);
  EXPECT_EQ(float(Float16(1.0f + 0x1p-11f)), 1.0f);
  EXPECT_EQ(float(Float16(1.0f + 3 * 0x1p-11f)), 1.0f + 0x1p-9f);
  EXPECT_EQ(float(Float16(0x1p-25f)), 0.0f);
  EXPECT_EQ(float(Float16(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(float(BFloat16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_TRUE(std::isnan(float(Float16(NAN))));
  EXPECT_TRUE(std::isnan(float(BFloat16(NAN))));
  EXPECT_EQ(dtypeFromName("BF16"), DType::BF16);
  for (int i = 0; i <= static_cast<int>(DType::C64); ++i)
    EXPECT_EQ(dtypeFromName(nameOf(static_cast<DType>(i))),
              static_cast<DType>(i));
}

} // namespace
