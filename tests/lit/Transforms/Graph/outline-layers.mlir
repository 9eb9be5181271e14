// RUN: buddy-opt %s --buddy-outline-layers | FileCheck %s

// Two layers with other weights: one function, called twice, the result a
// destination that the caller provides.

// CHECK-LABEL: func.func @two_layers
// CHECK-SAME: (%[[X:.*]]: tensor<?x4xf32>, %[[W0:.*]]: tensor<4x4xf32>, %[[W1:.*]]: tensor<4x4xf32>)
// CHECK: %[[E0:.*]] = tensor.empty(%{{.*}}) : tensor<?x4xf32>
// CHECK: %[[A:.*]] = call @two_layers.layer(%{{.*}}, %[[X]], %[[W0]], %[[E0]])
// CHECK: %[[B:.*]] = call @two_layers.layer(%{{.*}}, %[[A]], %[[W1]],
// CHECK: return %[[B]]
func.func @two_layers(%x: tensor<?x4xf32>, %w0: tensor<4x4xf32>, %w1: tensor<4x4xf32>)
    -> tensor<?x4xf32> attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?x4xf32>
  %e0 = tensor.empty(%d) {buddy.module = "layers.0"} : tensor<?x4xf32>
  %f0 = linalg.fill {buddy.module = "layers.0"} ins(%z : f32) outs(%e0 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %a = linalg.matmul {buddy.module = "layers.0"} ins(%x, %w0 : tensor<?x4xf32>, tensor<4x4xf32>)
      outs(%f0 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %e1 = tensor.empty(%d) {buddy.module = "layers.1"} : tensor<?x4xf32>
  %f1 = linalg.fill {buddy.module = "layers.1"} ins(%z : f32) outs(%e1 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %b = linalg.matmul {buddy.module = "layers.1"} ins(%a, %w1 : tensor<?x4xf32>, tensor<4x4xf32>)
      outs(%f1 : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %b : tensor<?x4xf32>
}

// A cache updated in place is no new destination.

// CHECK-LABEL: func.func @caches
// CHECK: call @caches.layer(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) :
// CHECK: call @caches.layer(
func.func @caches(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>, %k0: tensor<?x4xf32>, %k1: tensor<?x4xf32>, %p: index)
    -> (tensor<?x4xf32>, tensor<?x4xf32>) attributes {buddy.entry} {
  %z = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<1x4xf32>
  %f0 = linalg.fill {buddy.module = "l.0"} ins(%z : f32) outs(%e0 : tensor<1x4xf32>) -> tensor<1x4xf32>
  %a = linalg.matmul {buddy.module = "l.0"} ins(%x, %w : tensor<1x4xf32>, tensor<4x4xf32>) outs(%f0 : tensor<1x4xf32>) -> tensor<1x4xf32>
  %u0 = tensor.insert_slice %a into %k0[%p, 0] [1, 4] [1, 1] {buddy.module = "l.0"} : tensor<1x4xf32> into tensor<?x4xf32>
  %f1 = linalg.fill {buddy.module = "l.1"} ins(%z : f32) outs(%e0 : tensor<1x4xf32>) -> tensor<1x4xf32>
  %b = linalg.matmul {buddy.module = "l.1"} ins(%x, %w : tensor<1x4xf32>, tensor<4x4xf32>) outs(%f1 : tensor<1x4xf32>) -> tensor<1x4xf32>
  %u1 = tensor.insert_slice %b into %k1[%p, 0] [1, 4] [1, 1] {buddy.module = "l.1"} : tensor<1x4xf32> into tensor<?x4xf32>
  return %u0, %u1 : tensor<?x4xf32>, tensor<?x4xf32>
}

// Left inline: layers that differ (a constant), and a layer between whose ops
// an op of another one stands in the data flow.

// CHECK-LABEL: func.func @different
// CHECK-NOT: call
// CHECK: return
func.func @different(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {buddy.entry} {
  %z = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f0 = linalg.fill {buddy.module = "l.0"} ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = linalg.matmul {buddy.module = "l.0"} ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %f1 = linalg.fill {buddy.module = "l.1"} ins(%one : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = linalg.matmul {buddy.module = "l.1"} ins(%a, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f1 : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %b : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @not_convex
// CHECK-NOT: call
// CHECK: return
func.func @not_convex(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {buddy.entry} {
  %e = tensor.empty() : tensor<4x4xf32>
  %a = linalg.matmul {buddy.module = "l.0"} ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = linalg.exp {buddy.module = "other"} ins(%a : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = linalg.matmul {buddy.module = "l.0"} ins(%m, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%m : tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = linalg.matmul {buddy.module = "l.1"} ins(%b, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%b : tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = linalg.exp {buddy.module = "other"} ins(%c : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = linalg.matmul {buddy.module = "l.1"} ins(%n, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%n : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}

// An op that a rewrite left without a path belongs to the layer on both its sides.

// CHECK-LABEL: func.func @lost_path
// CHECK: %[[A:.*]] = call @lost_path.layer(
// CHECK: call @lost_path.layer(%[[A]]
func.func @lost_path(%x: tensor<4x4xf32>, %w: tensor<16xf32>) -> tensor<16xf32> attributes {buddy.entry} {
  %e = tensor.empty() : tensor<16xf32>
  %s = tensor.collapse_shape %x [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  %a = linalg.add {buddy.module = "l.0"} ins(%s, %w : tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<16xf32>) -> tensor<16xf32>
  %a2 = tensor.expand_shape %a [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %b = linalg.matmul {buddy.module = "l.0"} ins(%a2, %a2 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a2 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b1 = tensor.collapse_shape %b [[0, 1]] {buddy.module = "l.0"} : tensor<4x4xf32> into tensor<16xf32>
  %c = linalg.add {buddy.module = "l.1"} ins(%b1, %w : tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<16xf32>) -> tensor<16xf32>
  %c2 = tensor.expand_shape %c [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %d = linalg.matmul {buddy.module = "l.1"} ins(%c2, %c2 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%c2 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %d1 = tensor.collapse_shape %d [[0, 1]] {buddy.module = "l.1"} : tensor<4x4xf32> into tensor<16xf32>
  return %d1 : tensor<16xf32>
}

// CHECK: func.func private @two_layers.layer(
// CHECK-SAME: bufferization.writable = true
// CHECK: linalg.fill
// CHECK: linalg.matmul
// CHECK: bufferization.materialize_in_destination
