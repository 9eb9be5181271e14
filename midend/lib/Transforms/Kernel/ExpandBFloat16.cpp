//===- ExpandBFloat16.cpp - bf16 as the integers of its bits --------------===//
//
// Enters: code on memrefs and vectors, arithmetic in f32 already but for dot
// products of pairs and products of matrix tiles, which are instructions.
// Leaves: no bf16 but the operands of those. LLVM has few instructions for it
// on most targets and makes calls out of a value that only passes through a
// register.
//
//===----------------------------------------------------------------------===//

#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace buddy {
#define GEN_PASS_DEF_EXPANDBFLOAT16
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;

static bool isBrain(Type type) { return getElementTypeOrSelf(type).isBF16(); }

/// The type `like` with elements of f32.
static Type single(Type like) {
  Type f32 = Float32Type::get(like.getContext());
  if (auto shaped = dyn_cast<ShapedType>(like))
    return shaped.clone(f32);
  return f32;
}

/// Conversions from and to f64 go by f32, as in PyTorch.
static void splitConversions(Operation *root) {
  root->walk([](Operation *op) {
    if (!isa<arith::TruncFOp, arith::ExtFOp>(op))
      return;
    Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
    if (!(isBrain(to) && getElementTypeOrSelf(from).isF64()) &&
        !(isBrain(from) && getElementTypeOrSelf(to).isF64()))
      return;
    OpBuilder b(op);
    Operation *half = b.clone(*op);
    half->getResult(0).setType(single(to));
    op->setOperand(0, half->getResult(0));
  });
}

/// True if the op computes with its operands instead of moving them.
static bool isArithmetic(Operation *op) {
  if (isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp>(op))
    return false;
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
         isa<vector::FMAOp, vector::ReductionOp, vector::ContractionOp,
             vector::OuterProductOp, vector::MultiDimReductionOp>(op);
}

/// Whether any type or constant in the module is of bf16. Most modules have
/// none, and the rewrites below would go through all their ops to find out.
static bool mentionsBrain(ModuleOp module) {
  AttrTypeWalker walker;
  walker.addWalk([](BFloat16Type) { return WalkResult::interrupt(); });
  auto found = [&](auto typeOrAttribute) {
    return walker.walk(typeOrAttribute).wasInterrupted();
  };
  return module
      .walk([&](Operation *op) {
        if (found(op->getAttrDictionary()) ||
            llvm::any_of(op->getResultTypes(), found) ||
            llvm::any_of(op->getOperandTypes(), found))
          return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {
struct ExpandBFloat16 : buddy::impl::ExpandBFloat16Base<ExpandBFloat16> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!mentionsBrain(module))
      return markAllAnalysesPreserved();
    splitConversions(module);
    RewritePatternSet patterns(&getContext());
    arith::populateExpandBFloat16Patterns(patterns);
    if (failed(applyPatternsGreedily(module, std::move(patterns))))
      return signalPassFailure();
    WalkResult result = module.walk([](Operation *op) {
      if (isArithmetic(op) && (llvm::any_of(op->getOperandTypes(), isBrain) ||
                               llvm::any_of(op->getResultTypes(), isBrain))) {
        op->emitError("arithmetic on bf16 must be in f32 by now");
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    replaceTypes(module);
  }

  void replaceTypes(ModuleOp module) {
    Type bits = IntegerType::get(&getContext(), 16);
    AttrTypeReplacer replacer;
    // A tile's type says what is computed with its bits.
    replacer.addReplacement([](amx::TileType type) {
      return std::make_pair(Type(type), WalkResult::skip());
    });
    replacer.addReplacement([&](BFloat16Type) -> Type { return bits; });
    // Constants: attributes whose values have to follow their types.
    replacer.addReplacement([&](FloatAttr attr) -> std::optional<Attribute> {
      if (!attr.getType().isBF16())
        return std::nullopt;
      return IntegerAttr::get(bits, attr.getValue().bitcastToAPInt());
    });
    replacer.addReplacement(
        [&](DenseElementsAttr attr) -> std::optional<Attribute> {
          if (!attr.getElementType().isBF16())
            return std::nullopt;
          return attr.bitcast(bits);
        });
    replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    module.walk([](Operation *op) {
      if (!isa<arith::BitcastOp, vector::BitCastOp>(op) ||
          op->getOperand(0).getType() != op->getResult(0).getType())
        return;
      op->replaceAllUsesWith(op->getOperands());
      op->erase();
    });
    module.walk([](x86vector::DotBF16Op op) {
      OpBuilder b(op);
      auto restore = [&](Value bits) -> Value {
        Type type = cast<VectorType>(bits.getType()).clone(b.getBF16Type());
        return LLVM::BitcastOp::create(b, op.getLoc(), type, bits);
      };
      op.getAMutable().assign(restore(op.getA()));
      op.getBMutable().assign(restore(op.getB()));
    });
  }
};
} // namespace
