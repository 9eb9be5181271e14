// RUN: buddy-opt %s --buddy-decompose-ops --canonicalize | FileCheck %s

// Attention stays whole and gets a destination; the layer's path stays on it.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: (%[[Q:.*]]: tensor<8x?x64xf32>, %[[K:.*]]: tensor<2x?x64xf32>, %[[V:.*]]: tensor<2x?x32xf32>)
func.func @attention(%q: tensor<8x?x64xf32>, %k: tensor<2x?x64xf32>, %v: tensor<2x?x32xf32>) -> tensor<8x?x32xf32> {
  // CHECK: %[[T:.*]] = tensor.dim %[[Q]], %c1
  // CHECK: %[[E:.*]] = tensor.empty(%[[T]]) : tensor<8x?x32xf32>
  // CHECK: buddy.attention_into %[[Q]], %[[K]], %[[V]], %[[E]] {buddy.module = "layers.0", causal = "none", scale = 1.250000e-01 : f64}
  %o = buddy.attention %q, %k, %v {causal = "none", scale = 0.125 : f64, buddy.module = "layers.0"}
    : (tensor<8x?x64xf32>, tensor<2x?x64xf32>, tensor<2x?x32xf32>) -> tensor<8x?x32xf32>
  return %o : tensor<8x?x32xf32>
}

// A mask of bits becomes bytes, one of numbers stays.
// CHECK-LABEL: func.func @masks
func.func @masks(%q: tensor<2x3x8xf32>, %m: tensor<3x3xi1>, %n: tensor<3x3xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  // CHECK: %[[BYTES:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<3x3xi8>)
  // CHECK: arith.extui %{{.*}} : i1 to i8
  // CHECK: buddy.attention_into %{{.*}}, %{{.*}}, %{{.*}}, %[[BYTES]], %{{.*}} {causal
  // CHECK: buddy.attention_into %{{.*}}, %{{.*}}, %{{.*}}, %arg2, %{{.*}} {causal
  %a = buddy.attention %q, %q, %q, %m {causal = "none", scale = 1.0 : f64}
    : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x3xi1>) -> tensor<2x3x8xf32>
  %b = buddy.attention %q, %q, %q, %n {causal = "none", scale = 1.0 : f64}
    : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3x3xf32>) -> tensor<2x3x8xf32>
  return %a, %b : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}
