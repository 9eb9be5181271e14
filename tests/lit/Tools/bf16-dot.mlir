// Where the target has an instruction for dot products of bf16 pairs, that is
// what a product of bf16 becomes; elsewhere it is computed in f32. No target
// gets a call.

// RUN: buddy-opt %s --buddy-pipeline="target=znver4" -o %t.pairs.mlir
// RUN: buddy-llc %t.pairs.mlir -filetype=asm | FileCheck %s --check-prefix=PAIRS --implicit-check-not=__truncsfbf2
// RUN: buddy-opt %s --buddy-pipeline="target=x86-64-v4" -o %t.wide.mlir
// RUN: buddy-llc %t.wide.mlir -filetype=asm | FileCheck %s --check-prefix=WIDE --implicit-check-not=vdpbf16ps --implicit-check-not=__truncsfbf2

// The factor of a row is broadcast as a word by the load.
// PAIRS-LABEL: product
// PAIRS: vbroadcastss {{[-0-9]*}}(%r{{[0-9a-z]+}},%r{{.*}}), %[[ROW:zmm[0-9]+]]
// PAIRS: vdpbf16ps %zmm{{[0-9]+}}, %[[ROW]], %zmm{{[0-9]+}}
// WIDE-LABEL: product
// WIDE: vfmadd{{[0-9]+}}ps
func.func @product(
    %x: memref<64x128xbf16> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["64", "128"]},
    %w: memref<64x128xbf16> {buddy.kind = "weight", buddy.name = "w", buddy.shape = ["64", "128"]},
    %y: memref<64x64xbf16> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["64", "64"]})
    attributes {buddy.entry} {
  %zero = arith.constant 0.0 : bf16
  %tx = bufferization.to_tensor %x restrict : memref<64x128xbf16> to tensor<64x128xbf16>
  %tw = bufferization.to_tensor %w restrict : memref<64x128xbf16> to tensor<64x128xbf16>
  %e = tensor.empty() : tensor<64x64xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%tx, %tw : tensor<64x128xbf16>, tensor<64x128xbf16>) outs(%f : tensor<64x64xbf16>)
    -> tensor<64x64xbf16>
  bufferization.materialize_in_destination %p in restrict writable %y
    : (tensor<64x64xbf16>, memref<64x64xbf16>) -> ()
  return
}
