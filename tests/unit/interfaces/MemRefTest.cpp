//===- MemRefTest.cpp - Tests of MemRef -----------------------------------===//

#include "buddy/MemRef.h"
#include "TestSupport.h"

#include <numeric>
#include <vector>

using namespace buddy;
using namespace buddy::test;

namespace {

/// 0, 1, 2, … in row-major order.
template <int N> MemRef<float, N> counting(std::array<int64_t, N> sizes) {
  MemRef<float, N> result(sizes);
  std::iota(result.begin(), result.end(), 0.0f);
  return result;
}

template <typename T, int N>
std::vector<float> listed(const MemRef<T, N> &memref) {
  return {memref.begin(), memref.end()};
}

TEST(MemRef, DescriptorIsMlirsStruct) {
  struct Mlir {
    float *base, *aligned;
    int64_t offset, sizes[3], strides[3];
  };
  static_assert(sizeof(MemRefDescriptor<float, 3>) == sizeof(Mlir));
  static_assert(sizeof(MemRefDescriptor<float, 0>) == 24);
  auto memref = counting<3>({2, 3, 4});
  Mlir raw;
  std::memcpy(&raw, memref.descriptor(), sizeof(raw));
  EXPECT_EQ(raw.aligned, memref.data());
  EXPECT_EQ(raw.offset, 0);
  EXPECT_EQ(raw.sizes[1], 3);
  EXPECT_EQ(raw.strides[0], 12);
  EXPECT_EQ(raw.strides[2], 1);
}

TEST(MemRef, OwnedMemoryIsAlignedAndZero) {
  for (int64_t size : {0, 1, 7, 1000, 100000}) {
    MemRef<float, 1> memref({size});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memref.data()) % 64, 0u);
    EXPECT_NE(memref.data(), nullptr);
    EXPECT_TRUE(memref.ownsMemory());
    for (float value : memref)
      EXPECT_EQ(value, 0.0f);
  }
}

TEST(MemRef, ElementsAreRowMajor) {
  auto memref = counting<2>({2, 3});
  EXPECT_EQ(memref(1, 2), 5.0f);
  EXPECT_EQ(memref.at(0, 1), 1.0f);
  EXPECT_EQ((memref[{1, 0}]), 3.0f);
  memref.at(1, 1) = 9;
  EXPECT_EQ(memref.data()[4], 9.0f);
}

TEST(MemRef, AtRejectsIndicesOutOfBounds) {
  auto memref = counting<2>({2, 3});
  EXPECT_EQ(errorOf([&] { memref.at(2, 0); }),
            "index [2, 0] is outside a memref of shape [2, 3]");
  errorOf([&] { memref.at(0, -1); });
  errorOf([&] { memref.at(0, 3); });
  MemRef<float, 1> empty;
  errorOf([&] { empty.at(0); });
  MemRef<float, 0> scalar;
  errorOf([&] { scalar.at(); });
}

TEST(MemRef, TransposeAndSliceAreViews) {
  auto memref = counting<2>({3, 4});
  auto transposed = memref.transpose({1, 0});
  EXPECT_EQ(listed(transposed),
            (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_FALSE(transposed.ownsMemory());
  EXPECT_FALSE(transposed.isContiguous());
  auto slice = memref.slice(0, 1, 3).slice(1, 1, 4, 2);
  EXPECT_EQ(listed(slice), (std::vector<float>{5, 7, 9, 11}));
  slice(0, 0) = -1;
  EXPECT_EQ(memref(1, 1), -1.0f);
  EXPECT_EQ(listed(memref.select(1, 2)), (std::vector<float>{2, 6, 10}));
  EXPECT_EQ(memref.select(0, 2).select(0, 3)(), 11.0f);
  EXPECT_EQ(memref.slice(1, 2, 2).numElements(), 0);
}

TEST(MemRef, BadViewsAreErrors) {
  auto memref = counting<2>({3, 4});
  EXPECT_EQ(errorOf([&] { memref.slice(1, 2, 5); }),
            "slice [2:5:1] of dimension 1 of a memref of shape [3, 4]");
  errorOf([&] { memref.slice(2, 0, 1); });
  errorOf([&] { memref.slice(0, 0, 1, 0); });
  errorOf([&] { memref.transpose({0, 0}); });
  errorOf([&] { memref.transpose(0, 2); });
  errorOf([&] { memref.select(0, 3); });
  errorOf([&] { memref.reshape<1>({11}); });
  errorOf([&] { memref.transpose(0, 1).reshape<1>({12}); });
  errorOf([&] { (MemRef<float, 1>::view(nullptr, {1})); });
}

TEST(MemRef, CopiesFollowStrides) {
  auto memref = counting<2>({3, 4});
  auto copy = memref.transpose(0, 1).clone();
  EXPECT_TRUE(copy.isContiguous());
  EXPECT_EQ(copy(3, 2), 11.0f);
  MemRef<float, 2> target({4, 3}, 7.0f);
  target.slice(0, 1, 3).copyFrom(copy.slice(0, 0, 2));
  EXPECT_EQ(listed(target),
            (std::vector<float>{7, 7, 7, 0, 4, 8, 1, 5, 9, 7, 7, 7}));
  errorOf([&] { target.copyFrom(memref); });
  EXPECT_EQ(memref.reshape<3>({2, 3, 2})(1, 2, 1), 11.0f);
}

TEST(MemRef, NegativeAndZeroStrides) {
  std::vector<float> data = {0, 1, 2, 3};
  auto backward = MemRef<float, 1>::view(&data[3], {4}, {-1});
  EXPECT_EQ(listed(backward), (std::vector<float>{3, 2, 1, 0}));
  auto broadcast = MemRef<float, 2>::view(data.data(), {2, 2}, {0, 1});
  EXPECT_EQ(listed(broadcast), (std::vector<float>{0, 1, 0, 1}));
}

TEST(MemRef, RankZeroAndEmpty) {
  MemRef<float, 0> scalar(std::array<int64_t, 0>{});
  scalar() = 3;
  EXPECT_EQ(listed(scalar), std::vector<float>{3});
  EXPECT_EQ(scalar.numElements(), 1);
  EXPECT_EQ(scalar.clone()(), 3.0f);
  MemRef<float, 3> empty({2, 0, 3});
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(empty.begin(), empty.end());
  EXPECT_EQ(empty.clone().sizes(), empty.sizes());
  MemRef<float, 2> none;
  EXPECT_EQ(none.begin(), none.end());
  EXPECT_EQ(none.data(), nullptr);
}

TEST(MemRef, SizesThatOverflowAreErrors) {
  const int64_t big = int64_t(1) << 32;
  errorOf([&] { MemRef<float, 2>({big, big}); });
  errorOf([&] { MemRef<double, 1>({INT64_MAX}); });
  errorOf([&] { MemRef<double, 1>({INT64_MAX / 8}); });
  errorOf([&] { MemRef<float, 3>({0, big, big}); });
  EXPECT_CONTAINS(errorOf([&] { MemRef<float, 2>({2, -1}); }),
                  "negative size in memref shape [2, -1]");
  float value = 0;
  errorOf([&] { (MemRef<float, 1>::view(&value, {3}, {INT64_MAX})); });
  errorOf([&] { (MemRef<float, 1>::view(&value, {3}, {INT64_MIN})); });
  MemRef<float, 3> empty({big, big, 0});
  EXPECT_EQ(empty.numElements(), 0);
}

TEST(MemRef, MovingMovesTheMemory) {
  auto memref = counting<1>({3});
  float *data = memref.data();
  MemRef<float, 1> moved = std::move(memref);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(memref.data(), nullptr);
  EXPECT_EQ(memref.size(0), 0);
  auto view = moved.view();
  view = MemRef<float, 1>({2});
  EXPECT_EQ(moved(2), 2.0f);
  static_assert(!std::is_copy_constructible_v<MemRef<float, 1>>);
}

TEST(MemRef, ConstGivesConstViews) {
  const auto memref = counting<2>({2, 2});
  MemRef<const float, 2> view = memref.view();
  EXPECT_EQ(view.select(0, 1)(1), 3.0f);
  static_assert(std::is_same_v<decltype(memref(0, 0)), const float &>);
}

} // namespace
