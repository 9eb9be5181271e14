// One module for three architectures: nothing of one leaks into the passes, and
// conversions, copies and mathematics become code, not calls.

// RUN: buddy-opt %s --buddy-pipeline="target=rv64gcv" -o %t.rv.mlir
// RUN: buddy-llc %t.rv.mlir -filetype=asm | FileCheck %s --check-prefixes=CHECK,RISCV \
// RUN:   --implicit-check-not=__truncsfbf2 --implicit-check-not=memrefCopy --implicit-check-not=call{{.}}exp
// RUN: buddy-llc %t.rv.mlir -o %t.rv.o
// RUN: llvm-nm --undefined-only -j %t.rv.o | not grep -v -x -E "memset|omp_get_[a-z_]*|__kmpc_[a-z0-9_]*"
// RUN: buddy-llc %t.rv.mlir -o %t.rv.so --shared
// RUN: llvm-readelf --file-header --dynamic --arch-specific %t.rv.so | FileCheck %s --check-prefix=ELF

// RUN: buddy-opt %s --buddy-pipeline="target=x86-64-v3" -o %t.x86.mlir
// RUN: buddy-llc %t.x86.mlir -filetype=asm | FileCheck %s --check-prefixes=CHECK,X86 \
// RUN:   --implicit-check-not=__truncsfbf2 --implicit-check-not=memrefCopy --implicit-check-not=expf
// RUN: buddy-llc %t.x86.mlir -o %t.x86.o
// RUN: llvm-nm --undefined-only -j %t.x86.o | not grep -v -x -E "memset|kmp_set_blocktime|omp_get_[a-z_]*|__kmpc_[a-z0-9_]*"

// RUN: buddy-opt %s --buddy-pipeline="target=neoverse-v2" -o %t.arm.mlir
// RUN: buddy-llc %t.arm.mlir -filetype=asm | FileCheck %s --check-prefixes=CHECK,ARM \
// RUN:   --implicit-check-not=__truncsfbf2 --implicit-check-not=memrefCopy --implicit-check-not=expf
// RUN: buddy-llc %t.arm.mlir -o %t.arm.o
// RUN: llvm-nm --undefined-only -j %t.arm.o | not grep -v -x -E "memset|omp_get_[a-z_]*|__kmpc_[a-z0-9_]*"

// The way by LLVM IR.
// RUN: buddy-translate --mlir-to-llvmir %t.rv.mlir -o %t.rv.ll
// RUN: FileCheck %s --check-prefix=IR --input-file=%t.rv.ll
// RUN: buddy-llc %t.rv.ll -target=rv64gcv -filetype=asm | FileCheck %s --check-prefixes=CHECK,RISCV

// IR-NOT: bfloat
// IR: target triple = "riscv64-unknown-linux-gnu"
// IR: <vscale x {{[0-9]+}} x float>

// ELF: Machine: RISC-V
// ELF: Flags: {{.*}}double-float ABI
// ELF: (NEEDED) Shared library: [libgomp.so.1]
// Code for any vector length of at least 128 bits.
// ELF: Value: {{.*}}_v1p0
// ELF-NOT: zvl256b

#all = affine_map<(i, j) -> (i, j)>
#swap = affine_map<(i, j) -> (j, i)>

// CHECK-LABEL: product
// RISCV: vfmacc.vf
// X86: vfmadd{{[0-9]+}}ps
// ARM: fmla v{{[0-9]+}}.4s
func.func @product(
    %x: memref<?x?xf32> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["m", "k"]},
    %w: memref<?x?xbf16> {buddy.kind = "weight", buddy.name = "w", buddy.shape = ["k", "n"]},
    %y: memref<?x?xbf16> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["n", "m"]})
    attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %tx = bufferization.to_tensor %x restrict : memref<?x?xf32> to tensor<?x?xf32>
  %tw = bufferization.to_tensor %w restrict : memref<?x?xbf16> to tensor<?x?xbf16>
  %m = memref.dim %y, %c1 : memref<?x?xbf16>
  %n = memref.dim %y, %c0 : memref<?x?xbf16>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%tx, %tw : tensor<?x?xf32>, tensor<?x?xbf16>) outs(%f : tensor<?x?xf32>)
    -> tensor<?x?xf32>
  // exp(p) in bf16, transposed, plus itself in bf16.
  %o = tensor.empty(%n, %m) : tensor<?x?xbf16>
  %q = linalg.generic {indexing_maps = [#swap, #all], iterator_types = ["parallel", "parallel"]}
    ins(%p : tensor<?x?xf32>) outs(%o : tensor<?x?xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %a = math.exp %v : f32
    %b = arith.truncf %a : f32 to bf16
    %c = arith.addf %b, %b : bf16
    linalg.yield %c : bf16
  } -> tensor<?x?xbf16>
  bufferization.materialize_in_destination %q in restrict writable %y
    : (tensor<?x?xbf16>, memref<?x?xbf16>) -> ()
  return
}

// Rows of a strided view to rows of a contiguous one.
// CHECK-LABEL: rows
func.func @rows(
    %x: memref<?x?xf32, strided<[?, 1]>> {buddy.kind = "input", buddy.name = "x",
                                          buddy.shape = ["m", "n"]},
    %y: memref<?x?xf32> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["m", "n"]})
    attributes {buddy.entry} {
  %tx = bufferization.to_tensor %x restrict
    : memref<?x?xf32, strided<[?, 1]>> to tensor<?x?xf32>
  bufferization.materialize_in_destination %tx in restrict writable %y
    : (tensor<?x?xf32>, memref<?x?xf32>) -> ()
  return
}
