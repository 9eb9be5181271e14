//===- FuseRows.cpp - ops on the same rows in one loop over rows ----------===//
//
// Enters: linalg ops on memrefs, contractions lowered. Leaves: neighbours that
// work row by row in one parallel loop over rows, with an op on one row each
// inside. A row is then read from memory once for all of them (a norm's sum and
// its scaling), and there is one parallel region, not one for each.
//
// That inputs and outputs of one op do not overlap in part has been seen to by
// bufferization; here ops are reordered, so that memory is also compared
// between ops: what one writes and another touches must be the same value,
// indexed by the row in the same place.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Buffer.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Parallel.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace buddy {
#define GEN_PASS_DEF_FUSEROWS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using buddy::getBuffer;

static bool isMemref(OpOperand &operand) {
  return isa<MemRefType>(operand.get().getType());
}

/// Leading dimensions that are parallel.
static unsigned leadingParallel(linalg::LinalgOp op) {
  auto types = op.getIteratorTypesArray();
  return llvm::find_if(types,
                       [](utils::IteratorType type) {
                         return type != utils::IteratorType::parallel;
                       }) -
         types.begin();
}

/// Where a map has the first `count` dimensions, in their order; nothing if one
/// of them is missing, occurs twice, or is part of an expression.
static std::optional<SmallVector<unsigned>> rowPositions(AffineMap map,
                                                         unsigned count) {
  SmallVector<unsigned> positions;
  for (unsigned dim = 0; dim < count; ++dim) {
    std::optional<unsigned> found;
    for (auto [i, expr] : llvm::enumerate(map.getResults())) {
      if (!expr.isFunctionOfDim(dim))
        continue;
      if (found || !isa<AffineDimExpr>(expr))
        return std::nullopt;
      found = i;
    }
    if (!found)
      return std::nullopt;
    positions.push_back(*found);
  }
  return positions;
}

/// An op that can be taken apart into one op a row.
static bool hasRows(linalg::LinalgOp op) {
  if (!op || !op.hasPureBufferSemantics() || op->getNumRegions() != 1 ||
      leadingParallel(op) == 0)
    return false;
  // Each access's row is a plain index, or it has none.
  for (AffineMap map : op.getIndexingMapsArray())
    for (AffineExpr expr : map.getResults())
      if (!isa<AffineDimExpr, AffineConstantExpr>(expr))
        return false;
  return llvm::all_of(op->getOpOperands(), [](OpOperand &operand) {
    return !isMemref(operand) ||
           cast<MemRefType>(operand.get().getType()).isStrided();
  });
}

namespace {
/// Ops of one block, in order, that share their first `rows` dimensions.
struct Group {
  SmallVector<linalg::LinalgOp> ops;
  unsigned rows = 0;
};

struct FuseRows : buddy::impl::FuseRowsBase<FuseRows> {
  /// Sizes of the leading dimensions, as operand dimensions are known to be
  /// equal only by value: static sizes, or the same SSA value.
  static SmallVector<OpFoldResult> rowSizes(OpBuilder &b, linalg::LinalgOp op,
                                            unsigned count) {
    SmallVector<OpFoldResult> sizes;
    SmallVector<Range> ranges = op.createLoopRanges(b, op.getLoc());
    for (unsigned i = 0; i < count; ++i)
      sizes.push_back(ranges[i].size);
    return sizes;
  }

  /// A size by what it comes from: a number, a dimension of a buffer that was
  /// not allocated or viewed with a known size, or a value. Equal sources are
  /// equal sizes.
  using SizeSource = std::pair<void *, int64_t>;
  static SizeSource sourceOf(OpFoldResult size) {
    if (std::optional<int64_t> number = getConstantIntValue(size))
      return {nullptr, *number};
    auto value = cast<Value>(size);
    auto dim = value.getDefiningOp<memref::DimOp>();
    if (!dim || !dim.getConstantIndex())
      return {value.getAsOpaquePointer(), -1};
    int64_t index = *dim.getConstantIndex();
    if (OpFoldResult inner = sizeOf(dim.getSource(), index))
      return sourceOf(inner);
    return {dim.getSource().getAsOpaquePointer(), index};
  }

  static OpFoldResult sizeOf(Value memref, int64_t dim) {
    auto type = cast<MemRefType>(memref.getType());
    if (!type.isDynamicDim(dim))
      return IntegerAttr::get(IndexType::get(memref.getContext()),
                              type.getDimSize(dim));
    if (auto alloc = memref.getDefiningOp<memref::AllocOp>())
      return alloc.getDynamicSizes()[type.getDynamicDimIndex(dim)];
    if (auto expand = memref.getDefiningOp<memref::ExpandShapeOp>())
      return expand.getMixedOutputShape()[dim];
    if (auto view = memref.getDefiningOp<memref::SubViewOp>();
        view && view.getSourceType().getRank() == type.getRank())
      return view.getMixedSizes()[dim];
    return {};
  }

  /// The rows that all ops share if `op` joins; 0 if it must not.
  unsigned sharedRows(const Group &group, linalg::LinalgOp op) {
    unsigned least = leadingParallel(op), most = op.getNumLoops();
    for (linalg::LinalgOp other : group.ops) {
      least = std::min(least, leadingParallel(other));
      most = std::max(most, other.getNumLoops());
    }
    unsigned rows = std::min(least, most - 1);
    OpBuilder b(op);
    while (rows > 0) {
      b.setInsertionPoint(op);
      SmallVector<OpFoldResult> mine = rowSizes(b, op, rows);
      if (llvm::all_of(group.ops, [&](linalg::LinalgOp other) {
            b.setInsertionPoint(other);
            SmallVector<OpFoldResult> theirs = rowSizes(b, other, rows);
            return llvm::all_of(llvm::zip(mine, theirs), [](auto pair) {
              return sourceOf(std::get<0>(pair)) == sourceOf(std::get<1>(pair));
            });
          }))
        break;
      --rows;
    }
    // Rows must be worth it: long, or of unknown length.
    auto isShort = [&](linalg::LinalgOp member) {
      int64_t length = 1;
      for (int64_t size :
           ArrayRef<int64_t>(member.getStaticLoopRanges()).drop_front(rows)) {
        if (ShapedType::isDynamic(size))
          return false;
        length *= size;
      }
      return length < shortestRow;
    };
    if (rows == 0 || (isShort(op) && llvm::all_of(group.ops, isShort)))
      return 0;
    return rows;
  }

  /// Each access to memory that is written must be to the row's own part.
  bool isRowLocal(const Group &group, linalg::LinalgOp op, unsigned rows) {
    struct Access {
      Value memref;
      AffineMap map;
      bool writes;
    };
    llvm::MapVector<Value, SmallVector<Access>> accesses;
    auto collect = [&](linalg::LinalgOp member) {
      for (OpOperand &operand : member->getOpOperands())
        if (isMemref(operand))
          accesses[getBuffer(operand.get())].push_back(
              {operand.get(), member.getMatchingIndexingMap(&operand),
               member.isDpsInit(&operand)});
      // Elements read in the body, at any place.
      member->getRegion(0).walk([&](memref::LoadOp load) {
        accesses[getBuffer(load.getMemRef())].push_back(
            {load.getMemRef(), AffineMap(), false});
      });
    };
    for (linalg::LinalgOp member : group.ops)
      collect(member);
    collect(op);
    for (auto &[root, list] : accesses) {
      // Memory of unknown origin may be that of any other access.
      if (!root)
        return false;
      if (llvm::none_of(list, [](const Access &a) { return a.writes; }))
        continue;
      std::optional<SmallVector<unsigned>> where;
      for (const Access &access : list) {
        if (!access.map || access.memref != list.front().memref)
          return false;
        std::optional<SmallVector<unsigned>> here =
            rowPositions(access.map, rows);
        if (!here || (where && *where != *here))
          return false;
        where = here;
      }
    }
    return true;
  }

  /// `op` on the row at `ivs`, at the builder's insertion point.
  static void emitRow(OpBuilder &b, linalg::LinalgOp op, ValueRange ivs) {
    Location loc = op.getLoc();
    unsigned rows = ivs.size();
    MLIRContext *context = b.getContext();
    SmallVector<AffineExpr> dims(rows, getAffineConstantExpr(0, context));
    for (unsigned i = rows; i < op.getNumLoops(); ++i)
      dims.push_back(getAffineDimExpr(i - rows, context));
    SmallVector<Value> inputs, outputs;
    SmallVector<AffineMap> maps;
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      AffineMap map = op.getMatchingIndexingMap(&operand);
      SmallVector<AffineExpr> kept;
      if (isMemref(operand)) {
        auto type = cast<MemRefType>(value.getType());
        SmallVector<OpFoldResult> offsets, sizes,
            strides(type.getRank(), b.getIndexAttr(1));
        SmallVector<int64_t> shape;
        bool whole = true;
        for (auto [i, expr] : llvm::enumerate(map.getResults())) {
          auto dim = dyn_cast<AffineDimExpr>(expr);
          if (dim && dim.getPosition() < rows) {
            offsets.push_back(ivs[dim.getPosition()]);
            sizes.push_back(b.getIndexAttr(1));
            whole = false;
            continue;
          }
          offsets.push_back(b.getIndexAttr(0));
          sizes.push_back(memref::getMixedSize(b, loc, value, i));
          shape.push_back(type.getDimSize(i));
          kept.push_back(expr.replaceDims(dims));
        }
        if (!whole)
          value = memref::SubViewOp::create(
              b, loc,
              memref::SubViewOp::inferRankReducedResultType(
                  shape, type, offsets, sizes, strides),
              value, offsets, sizes, strides);
      } else {
        for (AffineExpr expr : map.getResults())
          kept.push_back(expr.replaceDims(dims));
      }
      maps.push_back(AffineMap::get(op.getNumLoops() - rows, 0, kept, context));
      (op.isDpsInit(&operand) ? outputs : inputs).push_back(value);
    }
    auto iterators = op.getIteratorTypesArray();
    auto row = linalg::GenericOp::create(
        b, loc, TypeRange(), inputs, outputs, maps,
        ArrayRef(iterators).drop_front(rows),
        [&](OpBuilder &inner, Location, ValueRange args) {
          IRMapping mapping;
          Block &body = op->getRegion(0).front();
          mapping.map(body.getArguments(), args);
          for (Operation &each : body) {
            auto index = dyn_cast<linalg::IndexOp>(each);
            if (!index)
              inner.clone(each, mapping);
            else if (index.getDim() < rows)
              mapping.map(index.getResult(), ivs[index.getDim()]);
            else
              mapping.map(
                  index.getResult(),
                  linalg::IndexOp::create(inner, loc, index.getDim() - rows)
                      .getResult());
          }
        });
    row->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  }

  void emit(Group &group) {
    if (group.ops.size() < 2)
      return;
    linalg::LinalgOp last = group.ops.back();
    OpBuilder b(last);
    Location loc = last.getLoc();
    Value work;
    for (linalg::LinalgOp op : group.ops) {
      Value own = arith::ConstantIndexOp::create(
          b, loc,
          std::max<size_t>(
              1,
              llvm::range_size(op->getRegion(0).front().without_terminator())));
      for (Range &range : op.createLoopRanges(b, loc))
        own = arith::MulIOp::create(
            b, loc, own, getValueOrCreateConstantIndexOp(b, loc, range.size));
      work = work ? arith::AddIOp::create(b, loc, work, own).getResult() : own;
    }
    auto constant = [&](int64_t v) -> Value {
      return arith::ConstantIndexOp::create(b, loc, v);
    };
    SmallVector<Value> upper;
    for (OpFoldResult size : rowSizes(b, last, group.rows))
      upper.push_back(getValueOrCreateConstantIndexOp(b, loc, size));
    SmallVector<Value> lower(group.rows, constant(0)),
        steps(group.rows, constant(1));
    buddy::createParallelLoop(b, loc, lower, upper, steps, work,
                              [&](OpBuilder &, Location, ValueRange ivs) {
                                for (linalg::LinalgOp op : group.ops)
                                  emitRow(b, op, ivs);
                              });
    for (linalg::LinalgOp op : group.ops)
      op->erase();
  }

  void runOnBlock(Block &block) {
    SmallVector<Group> groups;
    Group current;
    auto finish = [&] {
      groups.push_back(std::move(current));
      current = Group();
    };
    for (Operation &op : block) {
      auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
      if (linalgOp && hasRows(linalgOp)) {
        if (current.ops.empty()) {
          current.ops.push_back(linalgOp);
          continue;
        }
        unsigned rows = sharedRows(current, linalgOp);
        if (rows == 0 || !isRowLocal(current, linalgOp, rows)) {
          finish();
          rows = 0;
        }
        current.ops.push_back(linalgOp);
        current.rows = rows;
        continue;
      }
      // What stands in between is run before the loop.
      if (!isMemoryEffectFree(&op) && !isa<memref::AllocOp>(op))
        finish();
    }
    finish();
    for (Group &group : groups)
      emit(group);
  }

  void runOnOperation() override {
    FailureOr<buddy::TargetInfo> target = buddy::findTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    shortestRow = target->cacheLineBytes / sizeof(float);
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) {
      Operation *parent = block->getParentOp();
      // Loops that are parallel already stay as they are.
      if (!isa<linalg::LinalgOp>(parent) &&
          !parent->getParentOfType<omp::ParallelOp>() &&
          !isa<omp::ParallelOp>(parent))
        blocks.push_back(block);
    });
    for (Block *block : blocks)
      runOnBlock(*block);
  }

  /// Inner loops shorter than this, a line of the cache, gain nothing by a loop
  /// over rows around them.
  int64_t shortestRow = 0;
};
} // namespace
