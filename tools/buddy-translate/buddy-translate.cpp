//===- buddy-translate.cpp - mlir-translate with Buddy's dialect ----------===//
//
// Upstream's translations; --mlir-to-llvmir is our own registration of the same
// name, which knows the attributes that the pipeline leaves on a module and
// gives the LLVM module the target's triple and data layout.
//
//===----------------------------------------------------------------------===//

#include "buddy/CodeGen/CodeGen.h"
#include "buddy/Dialect/Buddy.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllTranslations.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;

static LogicalResult translate(ModuleOp module, llvm::raw_ostream &output) {
  llvm::LLVMContext context;
  auto translated = buddy::translateToLLVMIR(module, context);
  if (!translated)
    return module.emitError(llvm::toString(translated.takeError()));
  auto target = buddy::getModuleTarget(module);
  if (!target)
    return module.emitError(llvm::toString(target.takeError()));
  auto machine = buddy::createTargetMachine(*target, /*optLevel=*/3);
  if (!machine)
    return module.emitError(llvm::toString(machine.takeError()));
  (*translated)->setTargetTriple((*machine)->getTargetTriple());
  (*translated)->setDataLayout((*machine)->createDataLayout());
  (*translated)->print(output, nullptr);
  return success();
}

static void registerDialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  buddy::registerBuddyDialect(registry);
}

int main(int argc, char **argv) {
  TranslateFromMLIRRegistration toLLVMIR("mlir-to-llvmir",
                                         "Translate MLIR to LLVM IR", translate,
                                         registerDialects);
  registerFromLLVMIRTranslation();
  registerFromSPIRVTranslation();
  registerFromWasmTranslation();
  registerIRDLToCppTranslation();
  registerToCppTranslation();
  registerToSPIRVTranslation();
  smt::registerExportSMTLIBTranslation();
  return failed(mlirTranslateMain(argc, argv, "Buddy translation driver\n"));
}
