//===- BufferizeOps.cpp - how the dialect's ops take buffers --------------===//

#include "buddy/Dialect/Buddy.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace buddy;

namespace {
/// Destination-style ops that write all of their destinations and read none.
template <class Op>
struct DestinationModel
    : DstBufferizableOpInterfaceExternalModel<DestinationModel<Op>, Op> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand,
                              const AnalysisState &) const {
    return !cast<DestinationStyleOpInterface>(op).isDpsInit(&operand);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto destinations = cast<DestinationStyleOpInterface>(op);
    SmallVector<Value> operands, results;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<TensorType>(operand.get().getType())) {
        operands.push_back(operand.get());
        continue;
      }
      FailureOr<Value> buffer =
          getBuffer(rewriter, operand.get(), options, state);
      if (failed(buffer))
        return failure();
      operands.push_back(*buffer);
      if (destinations.isDpsInit(&operand))
        results.push_back(*buffer);
    }
    rewriter.setInsertionPoint(op);
    OperationState bufferized(op->getLoc(), op->getName(), operands,
                              TypeRange(), op->getAttrs());
    rewriter.create(bufferized);
    replaceOpWithBufferizedValues(rewriter, op, results);
    return success();
  }
};

struct QuantizedElementModel
    : BufferizableOpInterface::ExternalModel<QuantizedElementModel,
                                             QuantizedElementOp> {
  bool bufferizesToMemoryRead(Operation *, OpOperand &,
                              const AnalysisState &) const {
    return true;
  }
  bool bufferizesToMemoryWrite(Operation *, OpOperand &,
                               const AnalysisState &) const {
    return false;
  }
  AliasingValueList getAliasingValues(Operation *, OpOperand &,
                                      const AnalysisState &) const {
    return {};
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto element = cast<QuantizedElementOp>(op);
    FailureOr<Value> buffer =
        getBuffer(rewriter, element.getWeight(), options, state);
    if (failed(buffer))
      return failure();
    rewriter.setInsertionPoint(op);
    replaceOpWithNewBufferizedOp<QuantizedElementOp>(
        rewriter, op, element.getType(), *buffer, element.getRow(),
        element.getColumn(), element.getPacking());
    return success();
  }
};
} // namespace

void buddy::registerBufferizationModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, BuddyDialect *) {
    AttentionIntoOp::attachInterface<DestinationModel<AttentionIntoOp>>(
        *context);
    QuantizeOp::attachInterface<DestinationModel<QuantizeOp>>(*context);
    QuantizedMatmulOp::attachInterface<DestinationModel<QuantizedMatmulOp>>(
        *context);
    DequantizedMatmulOp::attachInterface<DestinationModel<DequantizedMatmulOp>>(
        *context);
    LibraryCallOp::attachInterface<DestinationModel<LibraryCallOp>>(*context);
    QuantizedElementOp::attachInterface<QuantizedElementModel>(*context);
  });
}
