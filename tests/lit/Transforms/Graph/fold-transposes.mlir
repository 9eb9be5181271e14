// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-fold-transposes))" | FileCheck %s

// CHECK-DAG: #[[MK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[NK:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[GHMD:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>

// CHECK-LABEL: func.func @transposed_weight
// CHECK-SAME: (%[[X:.*]]: tensor<?x4xf32>, %[[W:.*]]: tensor<8x4xf32>
// CHECK: linalg.contract indexing_maps = [#[[MK]], #[[NK]], #{{.*}}] {buddy.module = "l.0"} ins(%[[X]], %[[W]]
func.func @transposed_weight(%x: tensor<?x4xf32>, %w: tensor<8x4xf32>, %o: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
  %r = linalg.matmul {buddy.module = "l.0"} ins(%x, %t : tensor<?x4xf32>, tensor<4x8xf32>) outs(%o : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// Repeated heads become a dimension that the operand does not have.
// CHECK-LABEL: func.func @repeated_heads
// CHECK-NOT: linalg.broadcast
// CHECK: linalg.contract indexing_maps = [{{.*}}#[[GHMD]]
func.func @repeated_heads(%q: tensor<3x2x5x8xf32>, %k: tensor<3x7x8xf32>, %o: tensor<3x2x5x7xf32>) -> tensor<3x2x5x7xf32> {
  %e = tensor.empty() : tensor<3x2x7x8xf32>
  %b = linalg.broadcast ins(%k : tensor<3x7x8xf32>) outs(%e : tensor<3x2x7x8xf32>) dimensions = [1]
  %r = linalg.contract indexing_maps = [
      affine_map<(h, g, m, n, d) -> (h, g, m, d)>,
      affine_map<(h, g, m, n, d) -> (h, g, n, d)>,
      affine_map<(h, g, m, n, d) -> (h, g, m, n)>]
    ins(%q, %b : tensor<3x2x5x8xf32>, tensor<3x2x7x8xf32>) outs(%o : tensor<3x2x5x7xf32>) -> tensor<3x2x5x7xf32>
  return %r : tensor<3x2x5x7xf32>
}

// Left alone: an operand that is computed, not rearranged.
// CHECK-LABEL: func.func @computed
// CHECK: linalg.exp
// CHECK: linalg.matmul
func.func @computed(%x: tensor<4x4xf32>, %o: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %t = linalg.exp ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x4xf32>, tensor<4x4xf32>) outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// Left alone: without the broadcast the product would sum over a dimension
// that one factor has.
// CHECK-LABEL: func.func @summed_broadcast
// CHECK: linalg.broadcast
// CHECK: linalg.matmul
func.func @summed_broadcast(%x: tensor<f32>, %w: tensor<4x8xf32>, %o: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %b = linalg.broadcast ins(%x : tensor<f32>) outs(%e : tensor<3x4xf32>) dimensions = [0, 1]
  %r = linalg.matmul ins(%b, %w : tensor<3x4xf32>, tensor<4x8xf32>) outs(%o : tensor<3x8xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// Left alone: without the broadcast no factor would have the rows. The other
// operand's transpose is folded all the same.
// CHECK-LABEL: func.func @broadcast_rows
// CHECK: %[[B:.*]] = linalg.broadcast
// CHECK-NOT: linalg.transpose
// CHECK: linalg.contract {{.*}} ins(%[[B]], %arg1
func.func @broadcast_rows(%x: tensor<4xf32>, %w: tensor<8x4xf32>, %o: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %b = linalg.broadcast ins(%x : tensor<4xf32>) outs(%e : tensor<3x4xf32>) dimensions = [0]
  %f = tensor.empty() : tensor<4x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x4xf32>) outs(%f : tensor<4x8xf32>) permutation = [1, 0]
  %r = linalg.matmul ins(%b, %t : tensor<3x4xf32>, tensor<4x8xf32>) outs(%o : tensor<3x8xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}
