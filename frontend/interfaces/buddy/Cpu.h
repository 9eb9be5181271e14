//===- Cpu.h - Whether this CPU can run compiled code -----------*- C++ -*-===//
//
// Code compiled for a target uses instructions that another CPU of the same
// architecture may lack; executing one there ends the process with SIGILL.  A
// bundle therefore names what it needs, in LLVM's feature names, and asks here
// before the first call.
//
// x86: CPUID leaves as in Intel's "Software Developer's Manual", volume 2A, and
// AMD's "Programmer's Manual", volume 3, appendix E; XCR0 tells whether the
// system saves the wide registers.  AArch64: the bits of AT_HWCAP and AT_HWCAP2
// as in Linux's arch/arm64/include/uapi/asm/hwcap.h.  RISC-V: the letters of
// AT_HWCAP.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_CPU_H
#define BUDDY_CPU_H

#include "buddy/Context.h"
#include "buddy/Error.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__riscv) || defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace buddy {

#if defined(__x86_64__) || defined(__i386__)
namespace cpu_detail {

enum Register : uint8_t { EAX, EBX, ECX, EDX };
/// What the system must save for the feature to be usable: bits of XCR0.
enum State : uint32_t { None = 0, Ymm = 0x6, Zmm = 0xe6, Tile = 0x60000 };

struct Feature {
  const char *name; ///< LLVM's.
  uint32_t leaf, subleaf;
  Register reg;
  uint8_t bit;
  State state;
};

inline constexpr Feature Features[] = {
    {"cx8", 1, 0, EDX, 8, None},
    {"cmov", 1, 0, EDX, 15, None},
    {"mmx", 1, 0, EDX, 23, None},
    {"fxsr", 1, 0, EDX, 24, None},
    {"sse", 1, 0, EDX, 25, None},
    {"sse2", 1, 0, EDX, 26, None},
    {"sse3", 1, 0, ECX, 0, None},
    {"pclmul", 1, 0, ECX, 1, None},
    {"ssse3", 1, 0, ECX, 9, None},
    {"fma", 1, 0, ECX, 12, Ymm},
    {"cx16", 1, 0, ECX, 13, None},
    {"sse4.1", 1, 0, ECX, 19, None},
    {"sse4.2", 1, 0, ECX, 20, None},
    {"crc32", 1, 0, ECX, 20, None},
    {"movbe", 1, 0, ECX, 22, None},
    {"popcnt", 1, 0, ECX, 23, None},
    {"aes", 1, 0, ECX, 25, None},
    {"xsave", 1, 0, ECX, 26, None},
    {"avx", 1, 0, ECX, 28, Ymm},
    {"f16c", 1, 0, ECX, 29, Ymm},
    {"rdrnd", 1, 0, ECX, 30, None},
    {"fsgsbase", 7, 0, EBX, 0, None},
    {"bmi", 7, 0, EBX, 3, None},
    {"avx2", 7, 0, EBX, 5, Ymm},
    {"bmi2", 7, 0, EBX, 8, None},
    {"avx512f", 7, 0, EBX, 16, Zmm},
    {"avx512dq", 7, 0, EBX, 17, Zmm},
    {"rdseed", 7, 0, EBX, 18, None},
    {"adx", 7, 0, EBX, 19, None},
    {"avx512ifma", 7, 0, EBX, 21, Zmm},
    {"clflushopt", 7, 0, EBX, 23, None},
    {"clwb", 7, 0, EBX, 24, None},
    {"avx512cd", 7, 0, EBX, 28, Zmm},
    {"sha", 7, 0, EBX, 29, None},
    {"avx512bw", 7, 0, EBX, 30, Zmm},
    {"avx512vl", 7, 0, EBX, 31, Zmm},
    {"avx512vbmi", 7, 0, ECX, 1, Zmm},
    {"avx512vbmi2", 7, 0, ECX, 6, Zmm},
    {"gfni", 7, 0, ECX, 8, None},
    {"vaes", 7, 0, ECX, 9, Ymm},
    {"vpclmulqdq", 7, 0, ECX, 10, Ymm},
    {"avx512vnni", 7, 0, ECX, 11, Zmm},
    {"avx512bitalg", 7, 0, ECX, 12, Zmm},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Zmm},
    {"rdpid", 7, 0, ECX, 22, None},
    {"movdiri", 7, 0, ECX, 27, None},
    {"avx512vp2intersect", 7, 0, EDX, 8, Zmm},
    {"amx-bf16", 7, 0, EDX, 22, Tile},
    {"avx512fp16", 7, 0, EDX, 23, Zmm},
    {"amx-tile", 7, 0, EDX, 24, Tile},
    {"amx-int8", 7, 0, EDX, 25, Tile},
    {"sha512", 7, 1, EAX, 0, Ymm},
    {"avxvnni", 7, 1, EAX, 4, Ymm},
    {"avx512bf16", 7, 1, EAX, 5, Zmm},
    {"amx-fp16", 7, 1, EAX, 21, Tile},
    {"avxifma", 7, 1, EAX, 23, Ymm},
    {"avxvnniint8", 7, 1, EDX, 4, Ymm},
    {"avxneconvert", 7, 1, EDX, 5, Ymm},
    {"avxvnniint16", 7, 1, EDX, 10, Ymm},
    {"sahf", 0x80000001, 0, ECX, 0, None},
    {"lzcnt", 0x80000001, 0, ECX, 5, None},
    {"sse4a", 0x80000001, 0, ECX, 6, None},
    {"prfchw", 0x80000001, 0, ECX, 8, None},
    {"xop", 0x80000001, 0, ECX, 11, Ymm},
    {"fma4", 0x80000001, 0, ECX, 16, Ymm},
    {"tbm", 0x80000001, 0, ECX, 21, None},
};

inline uint32_t cpuid(uint32_t leaf, uint32_t subleaf, Register reg) {
  uint32_t values[4] = {};
  if (!__get_cpuid_count(leaf, subleaf, &values[0], &values[1], &values[2],
                         &values[3]))
    return 0;
  return values[reg];
}

inline uint64_t savedState() {
  constexpr uint32_t Osxsave = 1u << 27;
  if (!(cpuid(1, 0, ECX) & Osxsave))
    return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

inline bool lacks(const std::string &name) {
  for (const Feature &f : Features)
    if (name == f.name)
      return !(cpuid(f.leaf, f.subleaf, f.reg) >> f.bit & 1) ||
             (savedState() & f.state) != f.state;
  return false;
}

} // namespace cpu_detail
#elif defined(__aarch64__)
namespace cpu_detail {

struct Feature {
  const char *name; ///< LLVM's.
  unsigned long word;
  uint8_t bit;
};

inline constexpr Feature Features[] = {
    {"neon", AT_HWCAP, 1},      {"crc", AT_HWCAP, 7},    {"lse", AT_HWCAP, 8},
    {"fullfp16", AT_HWCAP, 10}, {"rdm", AT_HWCAP, 12},   {"rcpc", AT_HWCAP, 15},
    {"dotprod", AT_HWCAP, 20},  {"sve", AT_HWCAP, 22},   {"sve2", AT_HWCAP2, 1},
    {"i8mm", AT_HWCAP2, 13},    {"bf16", AT_HWCAP2, 14},
};

inline bool lacks(const std::string &name) {
  for (const Feature &f : Features)
    if (name == f.name)
      return !(getauxval(f.word) >> f.bit & 1);
  return false;
}

} // namespace cpu_detail
#elif defined(__riscv)
namespace cpu_detail {
inline bool lacks(const std::string &name) {
  if (name.size() != 1 || name[0] < 'a' || name[0] > 'z')
    return false;
  return !(getauxval(AT_HWCAP) >> (name[0] - 'a') & 1);
}
} // namespace cpu_detail
#else
namespace cpu_detail {
inline bool lacks(const std::string &) { return false; }
} // namespace cpu_detail
#endif

/// Those of `features` (LLVM's names, without a sign) that this CPU or its
/// system lacks.  A name that is no instruction set the compiler emits code
/// for, such as a tuning hint, is never lacking.
inline std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &features) {
  std::vector<std::string> missing;
  for (const std::string &name : features)
    if (cpu_detail::lacks(name))
      missing.push_back(name);
  return missing;
}

/// Throws buddy::Error, naming `what` and the features that are missing.
inline void requireCpuFeatures(const std::string &what,
                               const std::vector<std::string> &features) {
  std::string names;
  for (const std::string &name : missingCpuFeatures(features))
    names += (names.empty() ? "" : ", ") + name;
  if (!names.empty())
    throw Error(BUDDY_E_UNSUPPORTED,
                what + ": built for a CPU with " + names +
                    ", which this one lacks; build it here, or with --target");
}

} // namespace buddy

#endif // BUDDY_CPU_H
