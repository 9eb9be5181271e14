//===- buddy-opt.cpp - mlir-opt with Buddy's passes and pipeline ----------===//

#include "buddy/Dialect/Buddy.h"
#include "buddy/Pipelines/Pipeline.h"
#include "buddy/Transforms/Passes.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  buddy::registerBuddyPasses();
  buddy::registerBuddyPipeline();
  mlir::DialectRegistry registry;
  buddy::registerAllDialects(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Buddy optimizer driver\n", registry));
}
