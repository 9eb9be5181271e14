//===- TargetInfo.cpp - one description a machine -------------------------===//

#include "buddy/Target/TargetInfo.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/Triple.h"
#include <unistd.h>

using namespace buddy;

bool TargetInfo::isX86() const { return llvm::Triple(triple).isX86(); }
bool TargetInfo::isAArch64() const { return llvm::Triple(triple).isAArch64(); }
bool TargetInfo::isRISCV() const { return llvm::Triple(triple).isRISCV(); }

bool TargetInfo::hasFeature(llvm::StringRef feature) const {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(features).split(parts, ',');
  return llvm::is_contained(parts, ("+" + feature).str());
}

bool TargetInfo::hasFloat16Vectors() const {
  return !scalableVectors || !isRISCV() || hasFeature("zvfh") ||
         hasFeature("zvfhmin");
}

bool TargetInfo::hasByteDot(unsigned bits) const {
  if (!isX86() || bits > vectorBits)
    return false;
  return hasFeature("avx512vnni") || (bits <= 256 && hasFeature("avxvnni"));
}

bool TargetInfo::hasFloat16Conversion() const {
  // Every x86 with 256-bit vectors that is described here has f16c.
  if (isX86())
    return vectorBits >= 256;
  // Part of AArch64's base.
  return isAArch64() || hasFeature("zvfh") || hasFeature("zvfhmin");
}

/// Bytes of a level's cache for data as the kernel lists them for the first
/// core, 0 where it does not.
static uint64_t listedCacheBytes(llvm::StringRef level) {
  for (int index = 0;; ++index) {
    std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    auto read = [&](const char *name) {
      auto text = llvm::MemoryBuffer::getFileAsStream(folder + name);
      return text ? (*text)->getBuffer().trim().str() : std::string();
    };
    std::string found = read("/level");
    if (found.empty())
      return 0;
    uint64_t kilobytes;
    if (found == level && read("/type") != "Instruction" &&
        !llvm::StringRef(read("/size")).consumeInteger(10, kilobytes))
      return kilobytes << 10;
  }
}

/// Cache size of the machine this runs on, or the default where the system
/// does not tell. The C library is asked second: it counts the third level of
/// all of an AMD package's core groups, though a core has that of its own.
static uint64_t cacheBytes(llvm::StringRef level, int name, uint64_t fallback) {
  if (uint64_t listed = listedCacheBytes(level))
    return listed;
  long bytes = sysconf(name);
  return bytes > 0 ? uint64_t(bytes) : fallback;
}

static unsigned x86FmaPorts(llvm::StringRef cpu) {
  // Its two units of 256 bits make one of 512.
  return cpu == "znver4" ? 1 : 2;
}

static TargetInfo nativeTarget() {
  TargetInfo t;
  t.name = "native";
  t.triple = llvm::sys::getDefaultTargetTriple();
  t.cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  llvm::SmallVector<std::pair<std::string, bool>> sorted;
  for (const auto &f : llvm::sys::getHostCPUFeatures())
    sorted.emplace_back(f.first().str(), f.second);
  // The map's order is not stable, and the string is part of cache keys.
  llvm::sort(sorted);
  for (const auto &[feature, on] : sorted)
    features.AddFeature(feature, on);
  t.features = features.getString();
  t.openmp = "omp";
  if (t.isX86()) {
    if (t.hasFeature("avx512f"))
      t.vectorBits = 512, t.vectorRegisters = 32;
    else if (t.hasFeature("avx2"))
      t.vectorBits = 256;
    t.fmaPorts = x86FmaPorts(t.cpu);
  } else if (t.isAArch64()) {
    t.vectorRegisters = 32;
  } else if (t.isRISCV() && t.hasFeature("v")) {
    t.scalableVectors = true;
    t.vectorBits = 64;
    t.vectorRegisters = 32;
  }
  t.l1Bytes = cacheBytes("1", _SC_LEVEL1_DCACHE_SIZE, t.l1Bytes);
  t.l2Bytes = cacheBytes("2", _SC_LEVEL2_CACHE_SIZE, t.l2Bytes);
  t.l3Bytes = cacheBytes("3", _SC_LEVEL3_CACHE_SIZE, t.l3Bytes);
  return t;
}

static TargetInfo x86Target(llvm::StringRef name, llvm::StringRef cpu,
                            unsigned vectorBits, unsigned registers,
                            llvm::StringRef features = "") {
  TargetInfo t;
  t.name = name.str();
  t.triple = "x86_64-unknown-linux-gnu";
  t.cpu = cpu.str();
  t.openmp = "omp";
  t.vectorBits = vectorBits;
  t.vectorRegisters = registers;
  t.fmaPorts = x86FmaPorts(cpu);
  // LLVM's generic AVX512 levels prefer 256-bit vectors.
  if (vectorBits == 512)
    t.features = "-prefer-256-bit,+avx512bw,+avx512vl", t.l2Bytes = 1 << 20;
  // What the CPU implies and passes ask for.
  if (!features.empty())
    t.features += ("," + features).str();
  return t;
}

static TargetInfo rv64gcv() {
  TargetInfo t;
  t.name = "rv64gcv";
  t.triple = "riscv64-unknown-linux-gnu";
  t.cpu = "generic-rv64";
  // Plain +v runs at any VLEN of at least 128; +zvlNNNb would be wrong below
  // NNN.
  t.features = "+m,+a,+f,+d,+c,+v,+zicsr,+zifencei";
  t.abi = "lp64d";
  t.openmp = "gomp";
  // LLVM counts scalable vectors in blocks of 64 bits.
  t.vectorBits = 64;
  t.scalableVectors = true;
  t.vectorRegisters = 32;
  t.fmaPorts = 1;
  return t;
}

/// An Arm server core. Vectors are NEON's of 128 bits where SVE is at hand too:
/// V1 has four units of 128 bits that SVE joins to two of 256, and V2's SVE has
/// 128 bits.
static TargetInfo neoverse(llvm::StringRef name, unsigned fmaPorts,
                           uint64_t l2Bytes, llvm::StringRef more = "") {
  TargetInfo t;
  t.name = t.cpu = name.str();
  t.triple = "aarch64-unknown-linux-gnu";
  // Listed, for a program to check on the CPU it runs on.
  t.features = "+neon,+crc,+lse,+rdm,+rcpc,+fullfp16,+dotprod" + more.str();
  t.openmp = "gomp";
  t.vectorBits = 128;
  t.vectorRegisters = 32;
  t.fmaPorts = fmaPorts;
  t.l1Bytes = 64 << 10, t.l2Bytes = l2Bytes;
  return t;
}

std::vector<std::string> buddy::getTargetNames() {
  return {"native",         "x86-64-v3",   "x86-64-v4",
          "sapphirerapids", "znver4",      "neoverse-n1",
          "neoverse-v1",    "neoverse-v2", "rv64gcv"};
}

llvm::Expected<TargetInfo> buddy::getTargetInfo(llvm::StringRef name) {
  if (name.empty() || name == "native")
    return nativeTarget();
  if (name == "x86-64-v3")
    return x86Target(name, name, 256, 16);
  if (name == "x86-64-v4")
    return x86Target(name, name, 512, 32);
  if (name == "znver4")
    return x86Target(name, name, 512, 32, "+avx512bf16,+avx512vnni");
  if (name == "sapphirerapids") {
    TargetInfo t = x86Target(name, name, 512, 32,
                             "+avx512bf16,+avx512fp16,+avx512vnni,+amx-tile,"
                             "+amx-bf16,+amx-int8");
    // A core's own, and what the cores of the smallest parts share.
    t.l1Bytes = 48 << 10, t.l2Bytes = 2 << 20, t.l3Bytes = 30 << 20;
    return t;
  }
  if (name == "neoverse-n1")
    return neoverse(name, /*fmaPorts=*/2, /*l2Bytes=*/1 << 20);
  if (name == "neoverse-v1")
    return neoverse(name, /*fmaPorts=*/4, /*l2Bytes=*/1 << 20,
                    ",+bf16,+i8mm,+sve");
  if (name == "neoverse-v2")
    return neoverse(name, /*fmaPorts=*/4, /*l2Bytes=*/2 << 20,
                    ",+bf16,+i8mm,+sve,+sve2");
  if (name == "rv64gcv")
    return rv64gcv();
  return llvm::createStringError(
      llvm::inconvertibleErrorCode(), "unknown target '%s'; known targets: %s",
      name.str().c_str(), llvm::join(getTargetNames(), ", ").c_str());
}
