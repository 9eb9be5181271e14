//===- TargetInfo.h - one description a machine -----------------*- C++ -*-===//
//
// Every number about a machine that the compiler uses stands here and nowhere
// else: passes ask for it by the target's name.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_TARGET_TARGETINFO_H
#define BUDDY_TARGET_TARGETINFO_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace buddy {

struct TargetInfo {
  std::string name;     ///< As asked for: native, neoverse-n1, rv64gcv, …
  std::string triple;   ///< LLVM triple.
  std::string cpu;      ///< LLVM CPU name.
  std::string features; ///< LLVM feature string, "+a,-b".
  std::string abi;      ///< ABI name for LLVM, may be empty.
  std::string openmp;   ///< Runtime that kmpc calls are linked to: omp | gomp.

  /// Bits of a vector register; of a scalable one, its bits at vscale 1.
  unsigned vectorBits = 128;
  /// Vector length is known only at run time.
  bool scalableVectors = false;
  unsigned vectorRegisters = 16;
  /// FMAs of whole vectors that start in a cycle.
  unsigned fmaPorts = 2;
  /// Cycles from an FMA to one that uses its result.
  unsigned fmaLatency = 4;
  uint64_t l1Bytes = 32 << 10, l2Bytes = 512 << 10, l3Bytes = 8 << 20;
  unsigned cacheLineBytes = 64;
  /// Work (of buddy.num_threads: scalar operations, about a dozen in a
  /// nanosecond) from which a parallel region pays. Measured on two cores of a
  /// Zen 4 with libomp's workers spinning: decoding with 4-bit weights takes
  /// 4.8 to 4.9 ms a token at 2^18, 3.8 to 4.4 at 2^16, 4.2 to 4.4 at 2^14.
  int64_t parallelGrain = 1 << 16;
  /// Tasks that are enough for any number of threads. No property of a machine
  /// at hand: results must not depend on where a library runs.
  int64_t parallelTasks = 64;

  bool isX86() const;
  bool isAArch64() const;
  bool isRISCV() const;
  /// The feature string names this feature as present.
  bool hasFeature(llvm::StringRef feature) const;
  /// Elements of so many bits in a vector register (at vscale 1).
  unsigned vectorLength(unsigned elementBits) const {
    return vectorBits / elementBits;
  }
  /// Rows of a register tile of a matrix product: as many accumulators as leave
  /// registers for the factors (two vectors of columns a row; scalable ones in
  /// groups of four registers, of which there are eight).
  unsigned tileRows() const {
    return scalableVectors ? 7 : vectorRegisters >= 32 ? 8 : 6;
  }
  /// Independent sums that keep the FMA units busy.
  unsigned accumulators() const { return fmaPorts * fmaLatency; }
  /// One instruction adds products of four unsigned and four signed bytes to
  /// each 32-bit lane of a vector of so many bits (x86's vpdpbusd).
  bool hasByteDot(unsigned bits) const;
  /// One instruction adds products of bf16 pairs to vectors of f32 (x86's
  /// vdpbf16ps).
  bool hasBFloat16Dot() const { return hasFeature("avx512bf16"); }
  /// Loads and stores of vectors of any elements leave lanes out for free, and
  /// touch no memory for them (AVX-512's mask registers).
  bool hasMasks() const {
    return hasFeature("avx512bw") && hasFeature("avx512vl");
  }
  /// Matrix tiles multiply bf16: 16 rows of 16 pairs by 16 pairs of 16 columns,
  /// added to 16 x 16 sums in f32, in eight tile registers (x86's AMX).
  bool hasBFloat16Tiles() const {
    return hasFeature("amx-tile") && hasFeature("amx-bf16");
  }
  /// The same tiles multiply bytes, four in the place of a pair, in i32.
  bool hasByteTiles() const {
    return hasFeature("amx-tile") && hasFeature("amx-int8");
  }
  /// Vectors of f16 can be made, selected and converted. Those of fixed length
  /// always can, if need be an element at a time; a scalable vector cannot be
  /// split so. (bf16 is integers when LLVM sees it.)
  bool hasFloat16Vectors() const;
  /// f16 is converted from and to f32 by instructions, in vectors.
  bool hasFloat16Conversion() const;
};

/// The description of a target by name. `native` is the machine this runs on.
/// An unknown name is an error that lists the known ones.
llvm::Expected<TargetInfo> getTargetInfo(llvm::StringRef name);

/// The names that getTargetInfo knows.
std::vector<std::string> getTargetNames();

} // namespace buddy

#endif // BUDDY_TARGET_TARGETINFO_H
