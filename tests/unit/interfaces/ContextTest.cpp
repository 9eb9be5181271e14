//===- ContextTest.cpp - Tests of Context and cpuCount --------------------===//

#include "buddy/Context.h"
#include "TestSupport.h"
#include "buddy/MemRef.h"

#include <filesystem>

using namespace buddy;
using namespace buddy::test;

namespace {

TEST(Context, StartsReadyToCall) {
  Context ctx;
  EXPECT_EQ(ctx->abi, BUDDY_ABI_VERSION);
  EXPECT_EQ(ctx->num_threads, cpuCount());
  EXPECT_EQ(ctx->message[0], '\0');
  EXPECT_NE(ctx->alloc, nullptr);
  EXPECT_EQ(Context(3).numThreads(), 3);
  errorOf([] { Context(-1); });
}

TEST(Context, WorkspaceGrowsAligned) {
  Context ctx;
  for (int64_t size : {0, 1, 100, 5000, 64}) {
    ctx.reserve(size);
    EXPECT_GE(ctx->workspace_size, size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ctx->workspace) % 64, 0u);
    EXPECT_NE(ctx->workspace, nullptr);
    std::memset(ctx->workspace, 1, ctx->workspace_size);
  }
  EXPECT_GE(ctx->workspace_size, 5000);
}

TEST(Context, WorkspaceErrorsNeverThrow) {
  Context ctx;
  EXPECT_EQ(ctx.tryReserve(INT64_MAX), BUDDY_E_NOMEM);
  EXPECT_STREQ(ctx->message,
               "no memory for a workspace of 9223372036854775807 bytes");
  EXPECT_EQ(ctx->error, BUDDY_E_NOMEM);
  EXPECT_EQ(Context().tryReserve(-1), BUDDY_E_WORKSPACE);
}

TEST(Context, FailedSizeQueryKeepsItsMessage) {
  Context ctx;
  ctx->error = BUDDY_E_SHAPE;
  std::strcpy(ctx->message, "sizes of x and y differ");
  EXPECT_EQ(errorOf([&] { ctx.reserve(-1); }), "sizes of x and y differ");
}

TEST(Context, CheckThrowsTheMessage) {
  Context ctx;
  ctx.check(BUDDY_OK);
  std::memset(ctx->message, 'x', sizeof(ctx->message)); // Not terminated.
  try {
    ctx.check(BUDDY_E_CHECK);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.code(), BUDDY_E_CHECK);
    EXPECT_EQ(std::string(error.what()), std::string(432, 'x'));
  }
}

TEST(Context, OutputsAreFreedOrGivenUp) {
  Context ctx;
  void *kept = ctx->alloc(ctx, 10, 256);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(kept) % 256, 0u);
  void *given = ctx->alloc(ctx, 12, 4);
  EXPECT_TRUE(ctx.releaseOutput(given));
  EXPECT_FALSE(ctx.releaseOutput(given));
  auto output = MemRef<float, 1>::adopt(
      {static_cast<float *>(given), static_cast<float *>(given), 0, {3}, {1}});
  EXPECT_TRUE(output.ownsMemory());
  EXPECT_NE(ctx->alloc(ctx, 0, 1), nullptr);
  EXPECT_EQ(ctx->alloc(ctx, -1, 1), nullptr);
  EXPECT_EQ(ctx->alloc(ctx, 1, 3), nullptr);
  EXPECT_EQ(ctx->alloc(ctx, INT64_MAX, 64), nullptr);
}

TEST(Context, MovingKeepsTheAddress) {
  Context ctx;
  buddy_ctx *address = ctx;
  Context moved = std::move(ctx);
  EXPECT_EQ(moved.get(), address);
  EXPECT_NE(moved->alloc(moved, 8, 8), nullptr);
}

/// A tree of control groups in a folder of its own.
class CgroupTree : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "cgroup-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void write(const std::string &path, const std::string &contents) {
    std::filesystem::path file = root + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << contents;
  }
  double limit(const std::string &groups) {
    write("self", groups);
    return detail::cgroupCpuLimit(root + "/self", root);
  }
  std::string root;
};

TEST_F(CgroupTree, Version2TakesTheTightestAncestor) {
  write("cpu.max", "max 100000\n");
  write("a/cpu.max", "150000 100000\n");
  write("a/b/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(limit("0::/a/b\n"), 1.5);
  EXPECT_EQ(limit("0::/\n"), std::numeric_limits<double>::infinity());
}

TEST_F(CgroupTree, Version1ReadsTheCpuController) {
  write("cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n");
  write("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(limit("5:memory:/x\n3:cpu,cpuacct:/x\n"), 0.5);
}

TEST_F(CgroupTree, HostPathInAContainerFallsBackToTheMount) {
  write("cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(limit("0::/docker/0123\n"), 2.0);
}

TEST_F(CgroupTree, MalformedFilesAreNoLimit) {
  write("cpu.max", "abc\n");
  EXPECT_EQ(limit("0::/\nnonsense\n1:\n"),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(detail::cgroupCpuLimit(root + "/none", root),
            std::numeric_limits<double>::infinity());
}

TEST(CpuCount, IsAtMostTheAffinityMask) {
  EXPECT_GE(cpuCount(), 1);
  EXPECT_LE(cpuCount(), detail::affinityCpuCount());
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(cpuCount(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

} // namespace
