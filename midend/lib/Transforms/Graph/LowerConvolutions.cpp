//===- LowerConvolutions.cpp - convolutions as matrix products ------------===//
//
// Enters: linalg ops that are convolutions, on tensors, padding aside. Leaves:
// for each with several output channels that share its windows, a contraction
// of the filter and columns that are windows: by an indexing map, or where the
// contraction's generator would not take that (Contraction/Windows.cpp) made by
// an op that copies them ("im2col": Chellapilla, Puri and Simard, "High
// Performance Convolutional Neural Networks for Document Processing", 2006).
// Where a window is one element the input itself is the columns. Others,
// depthwise ones say, stay as they are.
//
// Copied columns larger than the last cache are made and used part by part: the
// op is tiled first, along the batch and then along the image.
//
//===----------------------------------------------------------------------===//

#include "../Contraction/Contraction.h"
#include "buddy/Transforms/ModuleTarget.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"

namespace buddy {
#define GEN_PASS_DEF_LOWERCONVOLUTIONS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

namespace {
/// Loop dimensions of a convolution as those of a product: for each of `outer`,
/// `result[rows, points] += filter[rows, reductions] * columns[reductions,
/// points]`, or the transposed of it.
struct Convolution {
  linalg::LinalgOp op;
  SmallVector<unsigned> outer; ///< Batch and groups.
  SmallVector<unsigned> rows;  ///< Output channels of a group.
  SmallVector<unsigned> points, reductions;
  /// Where the result has its points after its channels.
  bool pointsLast = true;
  SmallVector<int64_t> sizes; ///< Of all loops; kDynamic where unknown.

  static std::optional<Convolution> match(linalg::LinalgOp op);

  AffineMap map(unsigned operand) const {
    return linalg::LinalgOp(op).getIndexingMapsArray()[operand];
  }
  ShapedType type(unsigned operand) const {
    return cast<ShapedType>(op->getOperand(operand).getType());
  }
  int64_t size(ArrayRef<unsigned> dims) const {
    int64_t size = 1;
    for (unsigned dim : dims) {
      if (ShapedType::isDynamic(sizes[dim]))
        return ShapedType::kDynamic;
      size *= sizes[dim];
    }
    return size;
  }
  /// Dimensions of the columns, in order.
  SmallVector<unsigned> columnDims() const {
    SmallVector<unsigned> dims(outer);
    llvm::append_range(dims, pointsLast ? reductions : points);
    llvm::append_range(dims, pointsLast ? points : reductions);
    return dims;
  }
};
} // namespace

/// Those of `dims` that the map's results are, in the order of the results;
/// nothing if some are no result or other results stand in between.
static std::optional<SmallVector<unsigned>>
adjacentInResults(AffineMap map, ArrayRef<unsigned> dims) {
  SmallVector<unsigned> found, places;
  for (auto [place, expr] : llvm::enumerate(map.getResults())) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim || !llvm::is_contained(dims, dim.getPosition()))
      continue;
    found.push_back(dim.getPosition());
    places.push_back(place);
  }
  if (found.size() != dims.size() ||
      (!places.empty() && places.back() - places.front() + 1 != places.size()))
    return std::nullopt;
  return found;
}

std::optional<Convolution> Convolution::match(linalg::LinalgOp op) {
  if (!op.hasPureTensorSemantics() || op->getNumOperands() != 3 ||
      op.getNumDpsInits() != 1 || op->getNumRegions() != 1 ||
      linalg::isaContractionOpInterface(op) ||
      !linalg::isaConvolutionOpInterface(op) ||
      !getElementTypeOrSelf(op->getOperand(0).getType()).isIntOrFloat())
    return std::nullopt;
  FailureOr<linalg::ConvolutionDimensions> dims =
      linalg::inferConvolutionDims(op);
  if (failed(dims) || dims->outputChannel.empty() || dims->inputChannel.empty())
    return std::nullopt;
  Convolution c;
  c.op = op;
  c.sizes = op.getStaticLoopRanges();
  llvm::append_range(c.outer, dims->batch);
  llvm::append_range(c.outer, dims->depth);
  llvm::sort(c.outer);
  SmallVector<unsigned> reductions(dims->inputChannel.begin(),
                                   dims->inputChannel.end());
  llvm::append_range(reductions, dims->filterLoop);
  // Each is one dimension of the product: a tensor that has them next to each
  // other is collapsed. The filter orders the reductions, the result the rest.
  auto ordered = [&](unsigned operand, ArrayRef<unsigned> from,
                     SmallVector<unsigned> &to) {
    auto found = adjacentInResults(c.map(operand), from);
    if (found)
      to = *found;
    return found.has_value();
  };
  if (!ordered(1, reductions, c.reductions) ||
      !ordered(2, dims->outputImage, c.points) ||
      !ordered(2, dims->outputChannel, c.rows) ||
      !adjacentInResults(c.map(1), c.rows) ||
      c.outer.size() + c.rows.size() + c.points.size() + c.reductions.size() !=
          c.sizes.size())
    return std::nullopt;
  // A size that is not known could not be told the collapsed tensors.
  if (ShapedType::isDynamic(c.size(c.reductions)) ||
      ShapedType::isDynamic(c.size(c.rows)))
    return std::nullopt;
  auto place = [&](unsigned dim) {
    return *c.map(2).getResultPosition(getAffineDimExpr(dim, op.getContext()));
  };
  c.pointsLast = place(c.points[0]) > place(c.rows[0]);
  return c;
}

/// Groups of neighbouring dimensions of a tensor whose dimensions are the loop
/// dimensions `dims`: each of `merged` becomes one.
static SmallVector<ReassociationIndices>
reassociate(ArrayRef<unsigned> dims, ArrayRef<ArrayRef<unsigned>> merged) {
  SmallVector<ReassociationIndices> groups;
  std::optional<unsigned> last;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    std::optional<unsigned> now;
    for (auto [number, group] : llvm::enumerate(merged))
      if (llvm::is_contained(group, dim))
        now = number;
    if (now && now == last)
      groups.back().push_back(i);
    else
      groups.push_back({int64_t(i)});
    last = now;
  }
  return groups;
}

static Value collapse(OpBuilder &b, Location loc, Value value,
                      ArrayRef<ReassociationIndices> groups) {
  if (int64_t(groups.size()) == cast<ShapedType>(value.getType()).getRank())
    return value;
  return tensor::CollapseShapeOp::create(b, loc, value, groups);
}

/// The loop dimensions that the results of a map are.
static SmallVector<unsigned> dimsOf(AffineMap map) {
  SmallVector<unsigned> dims;
  for (AffineExpr expr : map.getResults())
    dims.push_back(cast<AffineDimExpr>(expr).getPosition());
  return dims;
}

namespace {
class Rewriter {
public:
  Rewriter(RewriterBase &b, const Convolution &c)
      : b(b), loc(c.op->getLoc()), c(c) {}

  /// The input is the columns.
  bool hasColumns() { return dimsOfColumnsAsGiven(c.columnDims()).has_value(); }

  /// Without columns, the contraction reading windows where they lie; false,
  /// with nothing changed, if the contraction's generator would not.
  bool runOnWindows(const TargetInfo &target) {
    WindowsAttr windows = findWindows(target);
    if (!windows)
      return false;
    unsigned loops = c.outer.size() + 3;
    SmallVector<AffineExpr> at;
    for (AffineExpr expr : c.map(0).getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      const unsigned *found =
          dim ? llvm::find(c.outer, dim.getPosition()) : c.outer.end();
      if (found == c.outer.end())
        break;
      at.push_back(b.getAffineDimExpr(found - c.outer.begin()));
    }
    llvm::append_range(at, windows.index(b.getAffineDimExpr(loops - 2),
                                         b.getAffineDimExpr(loops - 1)));
    if (at.size() != c.map(0).getNumResults())
      return false;
    linalg::GenericOp product = makeProduct(
        c.op->getOperand(0), AffineMap::get(loops, 0, at, b.getContext()));
    product->setAttr(kWindowsAttr, windows);
    if (Contraction::match(product)) {
      finish(product);
      return true;
    }
    b.eraseOp(product);
    return false;
  }

  void run() {
    SmallVector<ArrayRef<unsigned>> merged = {c.rows, c.points, c.reductions};
    SmallVector<unsigned> columnDims = c.columnDims();
    Value columns = c.op->getOperand(0);
    if (auto dims = dimsOfColumnsAsGiven(columnDims))
      columnDims = *dims;
    else
      columns = copyWindows(columnDims);
    finish(
        makeProduct(collapse(b, loc, columns, reassociate(columnDims, merged)),
                    productMap(columnDims)));
  }

private:
  /// The product of `factor`, read by `map`, with the filter.
  linalg::GenericOp makeProduct(Value factor, AffineMap map) {
    SmallVector<ArrayRef<unsigned>> merged = {c.rows, c.points, c.reductions};
    SmallVector<unsigned> filterDims = dimsOf(c.map(1));
    SmallVector<unsigned> resultDims = dimsOf(c.map(2));
    Value factors[] = {factor, collapse(b, loc, c.op->getOperand(1),
                                        reassociate(filterDims, merged))};
    Value sums = collapseInit(reassociate(resultDims, merged));
    auto maps = {map, productMap(filterDims), productMap(resultDims)};
    SmallVector<utils::IteratorType> kinds(c.outer.size() + 2,
                                           utils::IteratorType::parallel);
    kinds.push_back(utils::IteratorType::reduction);
    auto product = linalg::GenericOp::create(b, loc, sums.getType(), factors,
                                             sums, maps, kinds);
    for (NamedAttribute attr : c.op->getDiscardableAttrs())
      if (attr.getName() !=
          linalg::LinalgDialect::kMemoizedIndexingMapsAttrName)
        product->setDiscardableAttr(attr.getName(), attr.getValue());
    b.cloneRegionBefore(c.op->getRegion(0), product.getRegion(),
                        product.getRegion().end());
    return product;
  }

  /// What sums start from. A fill stands right before the product, so that the
  /// product starts from zero by itself.
  Value collapseInit(ArrayRef<ReassociationIndices> groups) {
    Value init = c.op->getOperand(2);
    auto fill = init.getDefiningOp<linalg::FillOp>();
    Value collapsed = collapse(b, loc, init, groups);
    if (!fill || collapsed == init)
      return collapsed;
    Value empty = tensor::EmptyOp::create(
        b, loc, tensor::getMixedSizes(b, loc, collapsed),
        getElementTypeOrSelf(init.getType()));
    return linalg::FillOp::create(b, loc, fill.getInputs(), empty).getResult(0);
  }

  /// Puts the product in the place of the convolution.
  void finish(linalg::GenericOp product) {
    Value result = product.getResult(0), init = c.op->getOperand(2);
    if (result.getType() != init.getType())
      result = tensor::ExpandShapeOp::create(
          b, loc, init.getType(), result,
          reassociate(dimsOf(c.map(2)), {c.rows, c.points, c.reductions}),
          tensor::getMixedSizes(b, loc, init));
    b.replaceOp(c.op, result);
  }

  /// The windows, if they are of an image of known size whose rows are
  /// contiguous and lie in vectors in few pieces.
  WindowsAttr findWindows(const TargetInfo &target) const {
    unsigned rank = c.points.size(), last = rank - 1;
    if (!target.hasMasks() || !c.pointsLast ||
        c.reductions.size() != rank + 1 || c.map(0).getNumResults() < rank + 1)
      return {};
    auto own = c.map(0).getResults().take_back(rank + 1);
    if (own[0] != b.getAffineDimExpr(c.reductions[0]))
      return {};
    SmallVector<int64_t> image, kernel, strides, dilations;
    for (unsigned i = 0; i < rank; ++i) {
      unsigned point = c.points[i], tap = c.reductions[i + 1];
      for (auto [dim, steps] :
           {std::pair(point, &strides), std::pair(tap, &dilations)}) {
        int64_t size = c.sizes[dim];
        if (ShapedType::isDynamic(size) || size == 0)
          return {};
        // The expression is linear: its value at 1 is the factor.
        SmallVector<AffineExpr> at(c.sizes.size(), b.getAffineConstantExpr(0));
        at[dim] = b.getAffineConstantExpr(1);
        auto step = dyn_cast<AffineConstantExpr>(own[i + 1].replaceDims(at));
        if (!step || (step.getValue() < 1 && size > 1))
          return {};
        steps->push_back(std::max<int64_t>(step.getValue(), 1));
      }
      image.push_back(c.sizes[point]);
      kernel.push_back(c.sizes[tap]);
      AffineExpr sum = b.getAffineDimExpr(point) * strides.back() +
                       b.getAffineDimExpr(tap) * dilations.back();
      if (simplifyAffineExpr(own[i + 1] - sum, c.sizes.size(), 0) !=
          b.getAffineConstantExpr(0))
        return {};
    }
    int64_t lanes =
        target.vectorLength(std::max(32u, c.type(0).getElementTypeBitWidth()));
    auto windows =
        WindowsAttr::get(b.getContext(), image, kernel, strides, dilations);
    if (windows.segments(lanes) > kMostSegments || strides[last] > lanes)
      return {};
    return windows;
  }

  /// The map of an operand of the product whose dimensions are `dims`, of which
  /// rows, points and reductions are one each: the product's loops are the
  /// outer ones, rows, points, reduction.
  AffineMap productMap(ArrayRef<unsigned> dims) {
    unsigned count = c.outer.size() + 3;
    SmallVector<AffineExpr> results;
    for (unsigned dim : dims) {
      unsigned loop;
      if (const unsigned *found = llvm::find(c.outer, dim);
          found != c.outer.end())
        loop = found - c.outer.begin();
      else
        loop = c.outer.size() + (llvm::is_contained(c.rows, dim)     ? 0
                                 : llvm::is_contained(c.points, dim) ? 1
                                                                     : 2);
      AffineExpr expr = b.getAffineDimExpr(loop);
      if (results.empty() || results.back() != expr)
        results.push_back(expr);
    }
    return AffineMap::get(count, 0, results, b.getContext());
  }

  /// If windows are one element, side by side, the input may be the columns:
  /// which of their dimensions it has, the others being of size 1.
  std::optional<SmallVector<unsigned>>
  dimsOfColumnsAsGiven(ArrayRef<unsigned> columnDims) {
    SmallVector<unsigned> kept;
    for (unsigned dim : columnDims)
      if (c.sizes[dim] != 1 || !llvm::is_contained(c.reductions, dim))
        kept.push_back(dim);
    ShapedType type = c.type(0);
    if (type.getRank() != int64_t(kept.size()))
      return std::nullopt;
    for (auto [place, expr] : llvm::enumerate(c.map(0).getResults())) {
      // Of point + window only the point is left where the window is at 0.
      AffineExpr simple = expr;
      for (unsigned dim : c.reductions)
        if (c.sizes[dim] == 1)
          simple = simple.replace(b.getAffineDimExpr(dim),
                                  b.getAffineConstantExpr(0));
      if (simple != b.getAffineDimExpr(kept[place]) ||
          type.isDynamicDim(place) ||
          type.getDimSize(place) != c.sizes[kept[place]])
        return std::nullopt;
    }
    return kept;
  }

  Value copyWindows(ArrayRef<unsigned> dims) {
    SmallVector<AffineExpr> loops(c.sizes.size());
    SmallVector<OpFoldResult> sizes;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      loops[dim] = b.getAffineDimExpr(i);
      sizes.push_back(sizeOf(dim));
    }
    for (unsigned dim : c.rows) // Not in the input's map.
      loops[dim] = b.getAffineConstantExpr(0);
    AffineMap from = c.map(0).replaceDimsAndSymbols(loops, {}, dims.size(), 0);
    AffineMap to = b.getMultiDimIdentityMap(dims.size());
    Type element = c.type(0).getElementType();
    Value empty = tensor::EmptyOp::create(b, loc, sizes, element);
    SmallVector<utils::IteratorType> kinds(dims.size(),
                                           utils::IteratorType::parallel);
    return linalg::GenericOp::create(
               b, loc, empty.getType(), c.op->getOperand(0), empty,
               ArrayRef<AffineMap>{from, to}, kinds,
               [](OpBuilder &builder, Location where, ValueRange args) {
                 linalg::YieldOp::create(builder, where, args[0]);
               })
        .getResult(0);
  }

  OpFoldResult sizeOf(unsigned dim) {
    if (!ShapedType::isDynamic(c.sizes[dim]))
      return b.getIndexAttr(c.sizes[dim]);
    AffineExpr expr = b.getAffineDimExpr(dim);
    for (unsigned operand : {2u, 1u})
      if (auto place = c.map(operand).getResultPosition(expr))
        return b.createOrFold<tensor::DimOp>(loc, c.op->getOperand(operand),
                                             *place);
    llvm_unreachable("a loop of a convolution is one of its result or filter");
  }

  /// A vector of columns from more rows of the image than this is gathered no
  /// faster than the columns are copied.
  static constexpr int64_t kMostSegments = 4;

  RewriterBase &b;
  Location loc;
  const Convolution &c;
};

struct LowerConvolutions
    : buddy::impl::LowerConvolutionsBase<LowerConvolutions> {
  /// Tile sizes of the loops that keep the columns within `bytes`, as far as
  /// they are known; zero where a loop is not tiled. A batch whose size is not
  /// known may be of any: it goes image by image.
  static SmallVector<int64_t> chooseTiles(const Convolution &c, int64_t bytes) {
    SmallVector<int64_t> tiles(c.sizes.size(), 0);
    int64_t left = llvm::divideCeil(c.type(0).getElementTypeBitWidth(), 8);
    for (unsigned dim : c.columnDims())
      if (!ShapedType::isDynamic(c.sizes[dim]))
        left *= c.sizes[dim];
    SmallVector<unsigned> order(c.outer);
    llvm::append_range(order, c.points);
    for (unsigned dim : order) {
      if (ShapedType::isDynamic(c.sizes[dim])) {
        tiles[dim] = llvm::is_contained(c.outer, dim) ? 1 : 0;
      } else if (left > bytes) {
        int64_t each = std::max<int64_t>(left / c.sizes[dim], 1);
        tiles[dim] = std::clamp<int64_t>(bytes / each, 1, c.sizes[dim]);
        left = each * tiles[dim];
      }
    }
    return tiles;
  }

  void runOnOperation() override {
    FailureOr<TargetInfo> target = findTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) { ops.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (linalg::LinalgOp op : ops) {
      std::optional<Convolution> c = Convolution::match(op);
      // Of few rows the windows are not used often enough to be copied.
      if (!c || c->size(c->rows) < kFewestRows)
        continue;
      rewriter.setInsertionPoint(op);
      if (!Rewriter(rewriter, *c).hasColumns() &&
          Rewriter(rewriter, *c).runOnWindows(*target))
        continue;
      SmallVector<int64_t> tiles = chooseTiles(*c, target->l3Bytes / 4);
      if (llvm::any_of(tiles, [](int64_t size) { return size != 0; })) {
        linalg::LinalgTilingOptions options;
        options.setTileSizes(tiles);
        FailureOr<linalg::TiledLinalgOp> tiled =
            linalg::tileLinalgOp(rewriter, op, options);
        if (succeeded(tiled)) {
          rewriter.replaceOp(op, tiled->tensorResults);
          if (!(c = Convolution::match(tiled->op)))
            continue;
          rewriter.setInsertionPoint(tiled->op);
        }
      }
      Rewriter(rewriter, *c).run();
    }
  }

  static constexpr int64_t kFewestRows = 4;
};
} // namespace
