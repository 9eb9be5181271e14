//===- EmulateTiles.cpp - AMX on a machine that has none ------------------===//
//
// Enters: code with ops of the AMX dialect. Leaves: tiles as 2-d vectors,
// products as scalar loops over buffers. For tests: indices, strides and edges
// of what the contraction generator makes for AMX can be run anywhere.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/DialectConversion.h"

namespace buddy {
#define GEN_PASS_DEF_EMULATEAMX
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

/// Indices of a tile's row in memory, `stride` elements behind the one before.
static SmallVector<Value> rowIndices(ImplicitLocOpBuilder &b, ValueRange first,
                                     Value stride, int64_t row) {
  SmallVector<Value> at(first);
  Value offset =
      arith::MulIOp::create(b, stride, arith::ConstantIndexOp::create(b, row));
  at.back() = arith::AddIOp::create(b, at.back(), offset);
  return at;
}

/// Elements from one row of the tile to the next: what the op gives, or the
/// stride of the buffer's second innermost dimension.
static Value tileStride(ImplicitLocOpBuilder &b, Value given, Value buffer) {
  if (given)
    return given;
  auto strides =
      memref::ExtractStridedMetadataOp::create(b, buffer).getStrides();
  return strides[strides.size() - 2];
}

static Value loadRows(ImplicitLocOpBuilder &b, VectorType type, Value from,
                      llvm::function_ref<SmallVector<Value>(int64_t)> at) {
  VectorType rowType =
      VectorType::get(type.getDimSize(1), type.getElementType());
  Value tile = arith::ConstantOp::create(b, b.getZeroAttr(type));
  for (int64_t i = 0; i < type.getDimSize(0); ++i)
    tile = vector::InsertOp::create(
        b, vector::LoadOp::create(b, rowType, from, at(i)), tile, i);
  return tile;
}

static void storeRows(ImplicitLocOpBuilder &b, Value tile, Value to,
                      llvm::function_ref<SmallVector<Value>(int64_t)> at) {
  auto type = cast<VectorType>(tile.getType());
  for (int64_t i = 0; i < type.getDimSize(0); ++i)
    vector::StoreOp::create(b, vector::ExtractOp::create(b, tile, i), to,
                            at(i));
}

namespace {
struct EmulateZero : OpConversionPattern<amx::TileZeroOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(amx::TileZeroOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type type = getTypeConverter()->convertType(op.getType());
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op,
                                                   rewriter.getZeroAttr(type));
    return success();
  }
};

struct EmulateLoad : OpConversionPattern<amx::TileLoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(amx::TileLoadOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto type = cast<VectorType>(getTypeConverter()->convertType(op.getType()));
    Value stride = tileStride(b, adaptor.getStride(), adaptor.getBase());
    rewriter.replaceOp(op, loadRows(b, type, adaptor.getBase(), [&](int64_t i) {
                         return rowIndices(b, adaptor.getIndices(), stride, i);
                       }));
    return success();
  }
};

struct EmulateStore : OpConversionPattern<amx::TileStoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(amx::TileStoreOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value stride = tileStride(b, adaptor.getStride(), adaptor.getBase());
    storeRows(b, adaptor.getVal(), adaptor.getBase(), [&](int64_t i) {
      return rowIndices(b, adaptor.getIndices(), stride, i);
    });
    rewriter.eraseOp(op);
    return success();
  }
};

/// A product of tiles: sum[m, n] += lhs[m, u * p + i] * rhs[p, u * n + i] for
/// the `u` elements i of each 32-bit word, widened by `widen(value, isRhs)` and
/// added up by `accumulate(sum, x, y)`.
static Value
multiply(ImplicitLocOpBuilder &b, Operation *op, Value lhs, Value rhs,
         Value acc, llvm::function_ref<Value(Value, bool)> widen,
         llvm::function_ref<Value(Value, Value, Value)> accumulate) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto row = [&](int64_t i) -> SmallVector<Value> {
    return {constant(i), constant(0)};
  };
  // A tile in a buffer of the thread.
  auto spill = [&](Value tile) -> Value {
    auto type = cast<VectorType>(tile.getType());
    Value buffer;
    {
      OpBuilder::InsertionGuard guard(b);
      Operation *scope = op->getParentOfType<omp::ParallelOp>();
      if (!scope)
        scope = op->getParentOfType<func::FuncOp>();
      b.setInsertionPointToStart(&scope->getRegion(0).front());
      buffer = memref::AllocaOp::create(
          b, MemRefType::get(type.getShape(), type.getElementType()));
    }
    storeRows(b, tile, buffer, row);
    return buffer;
  };
  auto loop = [&](int64_t count, llvm::function_ref<void(Value)> body) {
    auto loop =
        scf::ForOp::create(b, constant(0), constant(count), constant(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  };
  auto type = cast<VectorType>(acc.getType());
  int64_t words = cast<VectorType>(rhs.getType()).getDimSize(0);
  int64_t unit = cast<VectorType>(lhs.getType()).getDimSize(1) / words;
  lhs = spill(lhs), rhs = spill(rhs), acc = spill(acc);
  auto load = [&](Value from, Value i, Value word, int64_t u) -> Value {
    Value j = arith::AddIOp::create(
        b, arith::MulIOp::create(b, word, constant(unit)), constant(u));
    return widen(memref::LoadOp::create(b, from, ValueRange{i, j}),
                 from == rhs);
  };
  loop(type.getDimSize(0), [&](Value m) {
    loop(words, [&](Value p) {
      loop(type.getDimSize(1), [&](Value n) {
        Value sum = memref::LoadOp::create(b, acc, ValueRange{m, n});
        for (int64_t u = 0; u < unit; ++u)
          sum = accumulate(sum, load(lhs, m, p, u), load(rhs, p, n, u));
        memref::StoreOp::create(b, sum, acc, ValueRange{m, n});
      });
    });
  });
  return loadRows(b, type, acc, row);
}

struct EmulateFloats : OpConversionPattern<amx::TileMulFOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(amx::TileMulFOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(
        op, multiply(
                b, op, adaptor.getLhs(), adaptor.getRhs(), adaptor.getAcc(),
                [&](Value value, bool) -> Value {
                  return arith::ExtFOp::create(b, b.getF32Type(), value);
                },
                [&](Value sum, Value x, Value y) -> Value {
                  return arith::AddFOp::create(b, sum,
                                               arith::MulFOp::create(b, x, y));
                }));
    return success();
  }
};

struct EmulateBytes : OpConversionPattern<amx::TileMulIOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(amx::TileMulIOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(
        op, multiply(
                b, op, adaptor.getLhs(), adaptor.getRhs(), adaptor.getAcc(),
                [&](Value value, bool isRhs) -> Value {
                  if (isRhs ? op.getIsZextRhs() : op.getIsZextLhs())
                    return arith::ExtUIOp::create(b, b.getI32Type(), value);
                  return arith::ExtSIOp::create(b, b.getI32Type(), value);
                },
                [&](Value sum, Value x, Value y) -> Value {
                  return arith::AddIOp::create(b, sum,
                                               arith::MulIOp::create(b, x, y));
                }));
    return success();
  }
};

struct EmulateAMX : buddy::impl::EmulateAMXBase<EmulateAMX> {
  void runOnOperation() override {
    TypeConverter converter;
    converter.addConversion([](Type type) { return type; });
    converter.addConversion([](amx::TileType type) -> Type {
      return VectorType::get(type.getShape(), type.getElementType());
    });
    RewritePatternSet patterns(&getContext());
    ConversionTarget target(getContext());
    target.addIllegalDialect<amx::AMXDialect>();
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    patterns.add<EmulateZero, EmulateLoad, EmulateStore, EmulateFloats,
                 EmulateBytes>(converter, &getContext());
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
