// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-sink-into-loops,canonicalize))" | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>

// Rows that a loop takes one after the other are computed there.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: linalg.generic
// CHECK: scf.for %[[I:[a-z0-9]*]] =
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[%[[I]], 0] [1, 8] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<1x8xf32>) outs(%{{.*}} : tensor<1x8xf32>)
// CHECK-NOT: tensor<16x8xf32>
// CHECK: return
func.func @rows(%x: tensor<16x8xf32>, %s: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %e = tensor.empty() : tensor<16x8xf32>
  %m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<16x8xf32>
  %r = scf.for %i = %c0 to %c16 step %c1 iter_args(%t = %s) -> tensor<1x8xf32> {
    %row = tensor.extract_slice %m[%i, 0] [1, 8] [1, 1] : tensor<16x8xf32> to tensor<1x8xf32>
    %u = linalg.add ins(%row, %t : tensor<1x8xf32>, tensor<1x8xf32>) outs(%t : tensor<1x8xf32>) -> tensor<1x8xf32>
    scf.yield %u : tensor<1x8xf32>
  }
  return %r : tensor<1x8xf32>
}

// Not what is taken more than once (an outer loop, a loop that is not over all rows
// once), nor what is costly.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: linalg.generic
// CHECK: scf.for
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @others(%x: tensor<16x8xf32>, %s: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %e = tensor.empty() : tensor<16x8xf32>
  %m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<16x8xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.addf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<16x8xf32>
  %o = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = math.exp %a : f32
    linalg.yield %p : f32
  } -> tensor<16x8xf32>
  %q = scf.for %k = %c0 to %c32 step %c1 iter_args(%v = %s) -> tensor<1x8xf32> {
    %r = scf.for %i = %c0 to %c16 step %c1 iter_args(%t = %v) -> tensor<1x8xf32> {
      %row = tensor.extract_slice %m[%i, 0] [1, 8] [1, 1] : tensor<16x8xf32> to tensor<1x8xf32>
      %u = linalg.add ins(%row, %t : tensor<1x8xf32>, tensor<1x8xf32>) outs(%t : tensor<1x8xf32>) -> tensor<1x8xf32>
      scf.yield %u : tensor<1x8xf32>
    }
    scf.yield %r : tensor<1x8xf32>
  }
  %y = scf.for %i = %c1 to %c16 step %c1 iter_args(%t = %s) -> tensor<1x8xf32> {
    %row = tensor.extract_slice %n[%i, 0] [1, 8] [1, 1] : tensor<16x8xf32> to tensor<1x8xf32>
    %u = linalg.add ins(%row, %t : tensor<1x8xf32>, tensor<1x8xf32>) outs(%t : tensor<1x8xf32>) -> tensor<1x8xf32>
    scf.yield %u : tensor<1x8xf32>
  }
  %z = scf.for %i = %c0 to %c16 step %c1 iter_args(%t = %s) -> tensor<1x8xf32> {
    %row = tensor.extract_slice %o[%i, 0] [1, 8] [1, 1] : tensor<16x8xf32> to tensor<1x8xf32>
    %u = linalg.add ins(%row, %t : tensor<1x8xf32>, tensor<1x8xf32>) outs(%t : tensor<1x8xf32>) -> tensor<1x8xf32>
    scf.yield %u : tensor<1x8xf32>
  }
  return %q, %y, %z : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>
}
