// Where the target has AMX, a product of bf16 with enough rows is one of tiles.
// The step of the reduction is four loads and four products, and no tile is
// spilled; the entry asks the system for the tile registers first.

// RUN: buddy-opt %s --buddy-pipeline="target=sapphirerapids" -o %t.tiles.mlir
// RUN: buddy-llc %t.tiles.mlir -filetype=asm -o %t.tiles.s
// RUN: FileCheck %s --input-file=%t.tiles.s --implicit-check-not=__truncsfbf2
// RUN: buddy-llc %t.tiles.mlir -O0 -o %t.tiles.o
// RUN: buddy-opt %s --buddy-pipeline="target=znver4" -o %t.pairs.mlir
// RUN: buddy-llc %t.pairs.mlir -filetype=asm | FileCheck %s --check-prefix=PAIRS --implicit-check-not=tile --implicit-check-not=syscall

// PAIRS: vdpbf16ps

// CHECK-LABEL: product:
// CHECK: movl $158, %eax
// CHECK: syscall

// CHECK: ldtilecfg
// CHECK-NOT: tilestored
// CHECK-COUNT-4: tilezero %tmm
// CHECK-NOT: tilestored
// CHECK: .LBB
// CHECK-NOT: tilestored
// CHECK-COUNT-4: tileloadd (%{{.*}},%{{.*}}), %tmm
// CHECK-NEXT: tdpbf16ps %tmm
// CHECK-NEXT: tdpbf16ps %tmm
// CHECK-NEXT: tdpbf16ps %tmm
// CHECK-NEXT: tdpbf16ps %tmm
// CHECK-NOT: tilestored
// CHECK-COUNT-4: tileloadd (%{{.*}},%{{.*}}), %tmm
// CHECK-NEXT: tdpbf16ps %tmm
// CHECK-COUNT-4: tilestored
// CHECK-NOT: {{tilestored|tdpbf16ps}}
// CHECK: tilerelease
func.func @product(
    %x: memref<64x4096xbf16> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["64", "4096"]},
    %w: memref<64x4096xbf16> {buddy.kind = "weight", buddy.name = "w", buddy.shape = ["64", "4096"]},
    %y: memref<64x64xbf16> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["64", "64"]})
    attributes {buddy.entry} {
  %zero = arith.constant 0.0 : bf16
  %tx = bufferization.to_tensor %x restrict : memref<64x4096xbf16> to tensor<64x4096xbf16>
  %tw = bufferization.to_tensor %w restrict : memref<64x4096xbf16> to tensor<64x4096xbf16>
  %e = tensor.empty() : tensor<64x64xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%tx, %tw : tensor<64x4096xbf16>, tensor<64x4096xbf16>) outs(%f : tensor<64x64xbf16>)
    -> tensor<64x64xbf16>
  bufferization.materialize_in_destination %p in restrict writable %y
    : (tensor<64x64xbf16>, memref<64x64xbf16>) -> ()
  return
}
