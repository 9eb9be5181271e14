//===- ShareLoops.cpp - OpenMP loops as loops of each thread's part -------===//
//
// Enters: `omp.wsloop` in parallel regions. Leaves: `scf.for` over the
// consecutive iterations that are this thread's.
//
// LLVM's lowering asks the runtime for a thread's bounds at each loop. In
// libomp 22 that costs a formatted string (vsnprintf, malloc): 7 % of a decode
// step of a small LLaMA on two threads. The bounds are a division.
//
//===----------------------------------------------------------------------===//

#include "../IndexBuilder.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/OpenMP/OpenMPDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace buddy {
#define GEN_PASS_DEF_SHARELOOPS
#include "buddy/Transforms/Passes.h.inc"
} // namespace buddy

using namespace mlir;
using namespace buddy;

/// The loop nest that the threads share by consecutive parts, if that is all
/// there is to the loop; else null.
static omp::LoopNestOp plainNest(omp::WsloopOp loop) {
  if (!loop.getReductionVars().empty() || !loop.getPrivateVars().empty() ||
      !loop.getLinearVars().empty() || !loop.getAllocateVars().empty() ||
      loop.getScheduleKind() || loop.getOrdered() || loop.getOrder())
    return {};
  auto nest = dyn_cast<omp::LoopNestOp>(loop.getWrappedLoop());
  if (!nest || nest.getLoopInclusive() || !nest.getRegion().hasOneBlock() ||
      nest.getCollapseNumLoops() != nest.getLoopSteps().size() ||
      !llvm::all_of(nest.getIVs(), [](Value iv) {
        return isa<IndexType, IntegerType>(iv.getType());
      }))
    return {};
  return nest;
}

namespace {
class Sharer : IndexBuilder {
public:
  Sharer(OpBuilder &builder, omp::WsloopOp loop, omp::LoopNestOp nest,
         ModuleOp module)
      : IndexBuilder(loop.getLoc(), builder), loop(loop), nest(nest),
        module(module) {}

  void emit() {
    b.setInsertionPoint(loop);
    Location loc = loop.getLoc();
    SmallVector<Value> lower, steps, trips;
    Value total = constant(1);
    for (auto [from, to, step] :
         llvm::zip(nest.getLoopLowerBounds(), nest.getLoopUpperBounds(),
                   nest.getLoopSteps())) {
      lower.push_back(asIndex(from));
      steps.push_back(asIndex(step));
      Value distance = maximum(sub(asIndex(to), lower.back()), constant(0));
      trips.push_back(ceilDiv(distance, steps.back()));
      total = mul(total, trips.back());
    }
    Value thread = query("omp_get_thread_num"),
          threads = query("omp_get_num_threads");
    Value share = divide(total, threads), rest = modulo(total, threads);
    Value first = add(mul(thread, share), minimum(thread, rest));
    Value more =
        arith::ExtUIOp::create(b, loc, b.getI64Type(), lessThan(thread, rest));
    more = arith::IndexCastOp::create(b, loc, b.getIndexType(), more);
    Value end = add(first, add(share, more));
    auto part = scf::ForOp::create(b, loc, first, end, constant(1));
    b.setInsertionPointToStart(part.getBody());
    // The last loop of the nest runs fastest.
    Value left = part.getInductionVar();
    SmallVector<Value> ivs(trips.size());
    for (size_t i = trips.size(); i-- > 0;) {
      Value at = i == 0 ? left : modulo(left, trips[i]);
      if (i > 0)
        left = divide(left, trips[i]);
      Value iv = add(lower[i], mul(at, steps[i]));
      Type type = nest.getIVs()[i].getType();
      ivs[i] = isa<IndexType>(type)
                   ? iv
                   : arith::IndexCastOp::create(b, loc, type, iv).getResult();
    }
    Block &body = nest.getRegion().front();
    Operation *yield = body.getTerminator();
    part.getBody()->getOperations().splice(
        part.getBody()->getTerminator()->getIterator(), body.getOperations(),
        body.begin(), yield->getIterator());
    for (auto [old, iv] : llvm::zip_equal(nest.getIVs(), ivs))
      Value(old).replaceAllUsesWith(iv);
    b.setInsertionPointAfter(part);
    if (!loop.getNowait())
      omp::BarrierOp::create(b, loc);
    loop.erase();
  }

private:
  Value asIndex(Value value) {
    if (isa<IndexType>(value.getType()))
      return value;
    return b.createOrFold<arith::IndexCastOp>(b.getIndexType(), value);
  }

  /// What a function of OpenMP's that takes nothing returns.
  Value query(StringRef name) {
    auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!function) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(module.getBody());
      function = LLVM::LLVMFuncOp::create(
          b, loop.getLoc(), name,
          LLVM::LLVMFunctionType::get(b.getI32Type(), {}));
    }
    Value result =
        LLVM::CallOp::create(b, loop.getLoc(), function, ValueRange())
            .getResult();
    return arith::IndexCastOp::create(b, loop.getLoc(), b.getIndexType(),
                                      result);
  }

  omp::WsloopOp loop;
  omp::LoopNestOp nest;
  ModuleOp module;
};

struct ShareLoops : buddy::impl::ShareLoopsBase<ShareLoops> {
  void runOnOperation() override {
    SmallVector<omp::WsloopOp> loops;
    getOperation().walk([&](omp::WsloopOp loop) { loops.push_back(loop); });
    OpBuilder builder(&getContext());
    for (omp::WsloopOp loop : loops)
      if (omp::LoopNestOp nest = plainNest(loop))
        Sharer(builder, loop, nest, getOperation()).emit();
  }
};
} // namespace
