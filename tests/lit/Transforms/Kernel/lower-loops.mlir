// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-lower-loops))" | FileCheck %s

// The last dimension stays inside, for the vectorizer.
// CHECK-LABEL: func.func @elementwise
// CHECK: %[[N:.*]] = buddy.num_threads
// CHECK: omp.parallel num_threads(%[[N]] : i32)
// CHECK: omp.loop_nest (%[[I:.*]]) : index
// CHECK: scf.for %[[J:.*]] =
// CHECK: %[[A:.*]] = memref.load %{{.*}}[%[[J]], %[[I]]]
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[I]], %[[J]]]
func.func @elementwise(%x: memref<?x?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  }
  return
}

// A row's sum is kept in a register, in an order the vectorizer may choose.
// CHECK-LABEL: func.func @row_sum
// CHECK: omp.loop_nest (%[[I:.*]]) : index
// CHECK: %[[INIT:.*]] = memref.load %{{.*}}[%[[I]]]
// CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[INIT]])
// CHECK: arith.addf %{{.*}}, %[[ACC]] fastmath<reassoc>
// CHECK: memref.store %[[SUM]], %{{.*}}[%[[I]]]
func.func @row_sum(%x: memref<?x?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  }
  return
}

// Fast-math stays where the order is free: an element-wise sum is exact.
// CHECK-LABEL: func.func @exact
// CHECK-NOT: fastmath
// CHECK: return
func.func @exact(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %a : f32
    linalg.yield %m : f32
  }
  return
}

// CHECK-LABEL: func.func @strided_copy
// CHECK-NOT: memref.copy
// CHECK: memref.store
func.func @strided_copy(%x: memref<4x4xf32, strided<[1, 4]>>, %y: memref<4x4xf32>) {
  memref.copy %x, %y : memref<4x4xf32, strided<[1, 4]>> to memref<4x4xf32>
  return
}

// On tensors nothing is lowered.
// CHECK-LABEL: func.func @tensors
// CHECK: linalg.exp
func.func @tensors(%x: tensor<4xf32>, %e: tensor<4xf32>) -> tensor<4xf32> {
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
