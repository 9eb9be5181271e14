//===- Contraction.h - a linalg contraction seen as a matrix product ------===//
//
// Private to this folder. The analysis that the policy (ChooseSchedule, on
// tensors) and the mechanism (LowerContractions, on memrefs) share.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TRANSFORMS_CONTRACTION_CONTRACTION_H
#define BUDDY_LIB_TRANSFORMS_CONTRACTION_CONTRACTION_H

#include "buddy/Dialect/Buddy.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include <optional>

namespace buddy {

/// `c[row, col] += a[row, red] * b[red, col]`, all other dimensions being loops
/// around it. Columns are the dimension computed in vectors: the one along
/// which `c` is contiguous if there is a choice, `a` and `b` being swapped if
/// it is a dimension of the first operand.
struct Contraction {
  struct Operand {
    mlir::Value value;
    /// Loop dimensions to the operand's dimensions, a projected permutation.
    mlir::AffineMap map;
    /// Stride of each dimension of the operand; kDynamic where unknown.
    llvm::SmallVector<int64_t> strides;
    /// Cast ops of the body from element to factor, first to last.
    llvm::SmallVector<mlir::Operation *> casts;
    /// It lies in panels of columns, as PanelsAttr describes; then `map` is to
    /// column and reduction and the strides are unknown.
    struct Panels {
      int64_t width, unit;
    };
    std::optional<Panels> panels;
    /// It is an image whose windows are columns; then `map` ends in column and
    /// reduction, for all dimensions of the operand from the channel on, and
    /// the strides are unknown.
    WindowsAttr windows;
    /// Zeros around the image, in front of each dimension of a window; empty if
    /// there are none. `padded` is the image's size with those at both ends.
    llvm::SmallVector<int64_t> low, padded;

    mlir::Type elementType() const;
    bool has(unsigned dim) const { return position(dim).has_value(); }
    /// Which dimension of the operand loop dimension `dim` indexes.
    std::optional<unsigned> position(unsigned dim) const;
    /// Elements next to each other along loop dimension `dim` are adjacent.
    bool isContiguousAlong(unsigned dim) const;
  };

  mlir::linalg::LinalgOp op;
  Operand a, b, c;
  std::optional<unsigned> row; ///< Absent: one row.
  unsigned col = 0;
  unsigned red = 0;
  /// The other parallel and reduction dimensions, in loop order.
  llvm::SmallVector<unsigned> outerParallel, outerReductions;
  /// Static sizes of all dimensions; kDynamic where unknown.
  llvm::SmallVector<int64_t> sizes;
  /// Type that products are summed in: that of `c`, but f32 for f16 and bf16,
  /// so that a sum is rounded once.
  mlir::Type accumulator;

  /// An operand in panels can be read by tiles of the schedule's form.
  bool fits(ScheduleAttr schedule) const;
  int64_t staticRows() const { return row ? sizes[*row] : 1; }
  /// Both factors are bf16 as they lie in memory and sums are f32, as dot
  /// products of bf16 pairs want it.
  bool multipliesBFloat16() const;

  /// Nothing if the op is no contraction, has no column dimension (a dot
  /// product), or its body is not `c + cast(a) * cast(b)` on floats or integers
  /// of at least 8 bits.
  static std::optional<Contraction> match(mlir::linalg::LinalgOp op);
};

/// The op writes zero to every element of its one output, and only that.
bool isZeroFill(mlir::linalg::LinalgOp op);

} // namespace buddy

#endif // BUDDY_LIB_TRANSFORMS_CONTRACTION_CONTRACTION_H
