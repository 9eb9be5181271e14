// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-expand-reshapes))" | FileCheck %s

// Two dynamic sizes in one group: both are given, none is derived.
// CHECK-LABEL: func.func @two_dynamic
// CHECK-SAME: (%[[M:.*]]: memref<?x3xf32>, %[[B:.*]]: index, %[[T:.*]]: index)
// CHECK: memref.extract_strided_metadata %[[M]]
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[B]], %[[T]], 3], strides: [%{{.*}}, 3, 1]
func.func @two_dynamic(%m: memref<?x3xf32>, %b: index, %t: index) -> memref<?x?x3xf32> {
  %r = memref.expand_shape %m [[0, 1], [2]] output_shape [%b, %t, 3] : memref<?x3xf32> into memref<?x?x3xf32>
  return %r : memref<?x?x3xf32>
}

// Strides are the source's, times the inner sizes.
// CHECK-LABEL: func.func @strided
// CHECK: %{{.*}}, %[[OFF:.*]], %{{.*}}:2, %[[S:.*]]:2 = memref.extract_strided_metadata
// CHECK: %[[OUTER:.*]] = arith.muli %[[S]]#0, %c4
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [%[[OFF]]], sizes: [2, 4, %{{.*}}], strides: [%[[OUTER]], %[[S]]#0, 1]
func.func @strided(%m: memref<8x?xf32, strided<[?, 1], offset: ?>>, %n: index) -> memref<2x4x?xf32, strided<[?, ?, 1], offset: ?>> {
  %r = memref.expand_shape %m [[0, 1], [2]] output_shape [2, 4, %n]
    : memref<8x?xf32, strided<[?, 1], offset: ?>> into memref<2x4x?xf32, strided<[?, ?, 1], offset: ?>>
  return %r : memref<2x4x?xf32, strided<[?, ?, 1], offset: ?>>
}

// Collapsing is upstream's.
// CHECK-LABEL: func.func @collapse
// CHECK: memref.collapse_shape
func.func @collapse(%m: memref<2x4xf32>) -> memref<8xf32> {
  %r = memref.collapse_shape %m [[0, 1]] : memref<2x4xf32> into memref<8xf32>
  return %r : memref<8xf32>
}

// A scalar becomes a dimension of size 1.
// CHECK-LABEL: func.func @scalar(
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [1], strides: [1]
func.func @scalar(%m: memref<f32>) -> memref<1xf32> {
  %r = memref.expand_shape %m [] output_shape [1] : memref<f32> into memref<1xf32>
  return %r : memref<1xf32>
}
