// RUN: buddy-opt %s --buddy-pipeline="target=rv64gcv" | buddy-llc -filetype=asm | FileCheck %s

// Seven rows of vectors of unknown length in groups of four registers: a
// multiply-add a row by a scalar of A, one vector of B, nothing spilled.
// CHECK-LABEL: matmul
// CHECK: vsetvli {{.*}}, e32, m4
// CHECK: vle32.v [[B:v[0-9]+]]
// CHECK-NOT: {{vscale x .* Folded}}
// CHECK-COUNT-7: vfmacc.vf {{v[0-9]+}}, {{f[a-z0-9]+}}, v
func.func @matmul(%a: memref<?x?xf32> {buddy.kind = "input", buddy.name = "a", buddy.shape = ["m", "k"]},
                  %b: memref<?x?xf32> {buddy.kind = "input", buddy.name = "b", buddy.shape = ["k", "n"]},
                  %c: memref<?x?xf32> {buddy.kind = "output", buddy.name = "c", buddy.shape = ["m", "n"]})
    attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %ta = bufferization.to_tensor %a restrict : memref<?x?xf32> to tensor<?x?xf32>
  %tb = bufferization.to_tensor %b restrict : memref<?x?xf32> to tensor<?x?xf32>
  %m = memref.dim %c, %c0 : memref<?x?xf32>
  %n = memref.dim %c, %c1 : memref<?x?xf32>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%ta, %tb : tensor<?x?xf32>, tensor<?x?xf32>) outs(%init : tensor<?x?xf32>) -> tensor<?x?xf32>
  bufferization.materialize_in_destination %r in restrict writable %c : (tensor<?x?xf32>, memref<?x?xf32>) -> ()
  return
}
