//===- Passes.h - Buddy's passes --------------------------------*- C++ -*-===//

#ifndef BUDDY_TRANSFORMS_PASSES_H
#define BUDDY_TRANSFORMS_PASSES_H

#include "buddy/Dialect/Buddy.h"
#include "buddy/Transforms/Activations.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/OpenMP/OpenMPDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace buddy {

#define GEN_PASS_DECL
#include "buddy/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "buddy/Transforms/Passes.h.inc"

} // namespace buddy

#endif // BUDDY_TRANSFORMS_PASSES_H
