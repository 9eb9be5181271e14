//===- ChooseSchedule.cpp - tile sizes for contractions -------------------===//
//
// Enters: linalg ops on tensors. Leaves: each contraction with a
// `buddy.schedule`. All policy about contractions is here; the generators obey.
//
// Measured on one Zen 4 core (f32, ratio to torch 2.13, static weight sizes):
// 128x576x576 1.1, 128x1536x576 1.1, 512x8192x2048 1.0 to 1.15,
// 300x300x300 1.1, 33x577x1000 1.1; one row: 1536x576 1.4 to 1.6,
// 49152x576 1.15 where the reduction is contiguous and 0.85 to 0.95 where the
// columns are. The tiles of 128x576x576 have no spills. With all sizes dynamic
// 0.9 to 1, with spills around the reduction loops.
//
// bf16 is multiplied in pairs where the target has the instruction, at twice
// the f32 rate (ratios to torch's bf16 0.93 to 1.1, one row 1.4 to 3.8). It
// takes denormals, elements and sums, for zero and rounds to nearest, ties to
// even, whatever the mode is; so does PyTorch's bf16, which uses it too.
// Elsewhere bf16 is converted to f32 and runs at its rate.
//
// Where there are matrix tiles they multiply bf16, by reckoning, not by
// measurement: for r rows of 32 columns and 32 elements of the reduction, 32 *
// r dot products of pairs take at least 16 * r cycles, two products of tiles
// 32 however few the rows, to which copying rows and packing B come. A task has
// more rows then, since packing a panel costs about what 128 rows of it do.
//
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Passes.h"
#include "buddy/Transforms/Schedule.h"
#include "llvm/ADT/bit.h"

namespace buddy {
#define GEN_PASS_DEF_CHOOSESCHEDULE
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

static ScheduleAttr chooseSchedule(const Contraction &c,
                                   const TargetInfo &target) {
  unsigned bits = c.accumulator.getIntOrFloatBitWidth();
  auto isHalf = [](const Contraction::Operand &operand) {
    return operand.elementType().isF16();
  };
  const bool scalable =
      target.scalableVectors && (target.hasFloat16Vectors() ||
                                 !(isHalf(c.a) || isHalf(c.b) || isHalf(c.c)));
  int64_t mr, nr, vl;
  if (target.scalableVectors && !scalable) {
    // An element at a time, accumulated in f32 as everywhere. One column has no
    // edge and needs no masks.
    mr = 4, nr = 1, vl = 1;
  } else if (scalable) {
    // Four registers a vector: 7 rows of accumulators and one vector of B fill
    // 32 registers, and the rows' factors are scalars.
    mr = target.tileRows(), nr = 1, vl = 4 * target.vectorLength(bits);
  } else {
    vl = std::max(1u, target.vectorLength(bits));
    mr = target.tileRows();
    nr = 2;
    int64_t columns = c.b.panels ? c.b.panels->width : c.sizes[c.col];
    if (!ShapedType::isDynamic(columns) && columns <= vl)
      nr = 1;
  }
  const bool pairs = target.hasBFloat16Dot() && c.multipliesBFloat16();
  // A panel of kc rows of B stays in the first-level cache while all rows of A
  // pass over it.
  // Unrolled, the compiler loads several vectors of B early, which takes
  // registers that only the fixed-length tiles leave free (seen as spills).
  int64_t ku = scalable ? 1 : 4;
  int64_t width = nr * vl * (scalable ? 4 : 1);
  int64_t kc = llvm::bit_floor<uint64_t>(target.l1Bytes * 8 /
                                         (width * (pairs ? 16 : bits)));
  kc = std::clamp<int64_t>(kc, 64, 512);
  // The generator reads rows of A as tiles where they lie.
  const bool tiles = pairs && target.hasBFloat16Tiles() && vl == 16 &&
                     c.a.isContiguousAlong(c.red) && !c.b.windows;
  // Windows cost more to pack than a matrix does: more rows share that.
  int64_t mc = mr * (tiles ? 64 : c.b.windows ? 32 : 16);
  // RISC-V sums a vector by one slow instruction and has no cheap masks.
  int64_t dotM = scalable ? 0 : 8;
  int64_t packM = mr * 4;
  return ScheduleAttr::get(c.c.value.getContext(), mr, nr, vl, scalable, mc, kc,
                           ku, dotM, packM, pairs, tiles ? 8 : 0);
}

std::pair<int64_t, int64_t> buddy::panelVectors(const TargetInfo &target) {
  if (target.scalableVectors)
    return {4 * target.vectorLength(32) * 2, 1};
  return {std::max(1u, target.vectorLength(32)), 2};
}

ScheduleAttr buddy::chooseSchedule(linalg::LinalgOp op,
                                   const TargetInfo &target) {
  std::optional<Contraction> c = Contraction::match(op);
  return c ? ::chooseSchedule(*c, target) : ScheduleAttr();
}

namespace {
struct ChooseSchedule : buddy::impl::ChooseScheduleBase<ChooseSchedule> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    FailureOr<TargetInfo> target = findTarget(function);
    if (failed(target))
      return signalPassFailure();
    function.walk([&](linalg::LinalgOp op) {
      if (op->hasAttr(kScheduleAttr))
        return;
      if (ScheduleAttr schedule = buddy::chooseSchedule(op, *target))
        op->setAttr(kScheduleAttr, schedule);
    });
  }
};
} // namespace
