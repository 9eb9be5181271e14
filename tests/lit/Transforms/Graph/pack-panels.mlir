// RUN: buddy-opt %s --buddy-set-target=target=x86-64-v4 --buddy-pack-weights --canonicalize --cse | FileCheck %s
// RUN: buddy-opt %s --buddy-set-target=target=znver4 --buddy-pack-weights | FileCheck %s --check-prefix=PAIRS
// RUN: buddy-opt %s --buddy-set-target=target=rv64gcv --buddy-pack-weights | FileCheck %s --check-prefix=RVV

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#bt = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// The same contraction with another map of the weight, the user's schedule kept; elements are read
// where they lie. A length of vectors that is not known lays nothing out.
// CHECK-DAG: #[[PANELS:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32)>
// CHECK-DAG: #[[OUTER:.*]] = affine_map<()[s0] -> (s0 floordiv 32)>
// CHECK-DAG: #[[INNER:.*]] = affine_map<()[s0] -> (s0 mod 32)>
// CHECK-LABEL: func.func @rows
// CHECK-SAME: memref<3x65x32xf32> {buddy.kind = "weight", buddy.name = "w", buddy.packing = #buddy.panels<n = 70, k = 65, width = 32, unit = 1, transposed = false>, buddy.shape = ["3", "65", "32"]}
// CHECK-DAG: %[[P:.*]] = affine.apply #[[OUTER]]()[%[[I:.*]]]
// CHECK-DAG: %[[J:.*]] = affine.apply #[[INNER]]()[%[[I]]]
// CHECK: tensor.extract %{{.*}}[%[[P]], %c4, %[[J]]] : tensor<3x65x32xf32>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[PANELS]], #{{.*}}]
// CHECK-SAME: ins(%{{.*}}, %{{.*}} : tensor<?x65xf32>, tensor<3x65x32xf32>)
// CHECK-SAME: buddy.schedule
// RVV-LABEL: func.func @rows
// RVV-SAME: memref<70x65xf32> {buddy.kind = "weight"
func.func @rows(%x: memref<?x65xf32>,
    %w: memref<70x65xf32> {buddy.kind = "weight", buddy.name = "w", buddy.format = "plain", buddy.shape = ["70", "65"]},
    %i: index, %e: memref<f32>, %y: memref<?x70xf32>) attributes {buddy.entry} {
  %c4 = arith.constant 4 : index
  %xt = bufferization.to_tensor %x restrict : memref<?x65xf32> to tensor<?x65xf32>
  %wt = bufferization.to_tensor %w restrict : memref<70x65xf32> to tensor<70x65xf32>
  %yt = bufferization.to_tensor %y restrict writable : memref<?x70xf32> to tensor<?x70xf32>
  %element = tensor.extract %wt[%i, %c4] : tensor<70x65xf32>
  memref.store %element, %e[] : memref<f32>
  %r = linalg.contract indexing_maps = [#a, #b, #c]
      {buddy.schedule = #buddy.schedule<mr = 4, nr = 1, vl = 16, scalable = false, mc = 16, kc = 64, ku = 1, dot_m = 0, pack_m = 8>}
      ins(%xt, %wt : tensor<?x65xf32>, tensor<70x65xf32>) outs(%yt : tensor<?x70xf32>) -> tensor<?x70xf32>
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<?x70xf32>, memref<?x70xf32>) -> ()
  return
}

// A weight that lies transposed; few columns fill one vector; bf16 in pairs where the CPU multiplies
// them so, an odd last one with a zero.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: memref<1x9x16xbf16> {{.*}}#buddy.panels<n = 5, k = 9, width = 16, unit = 1, transposed = true>
// PAIRS: affine_map<(d0, d1, d2) -> (d1 floordiv 16, d2 floordiv 2, d1 mod 16, d2 mod 2)>
// PAIRS-LABEL: func.func @transposed
// PAIRS-SAME: memref<1x5x16x2xbf16> {{.*}}#buddy.panels<n = 5, k = 9, width = 16, unit = 2, transposed = true>
func.func @transposed(%x: tensor<4x9xbf16>, %init: tensor<4x5xf32>,
    %w: memref<9x5xbf16> {buddy.kind = "weight", buddy.format = "plain"}, %y: memref<4x5xf32>) attributes {buddy.entry} {
  %wt = bufferization.to_tensor %w restrict : memref<9x5xbf16> to tensor<9x5xbf16>
  %r = linalg.contract indexing_maps = [#a, #bt, #c] ins(%x, %wt : tensor<4x9xbf16>, tensor<9x5xbf16>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<4x5xf32>, memref<4x5xf32>) -> ()
  return
}

// Multiplied both ways, added to something, one column, only looked up, no weight format: all keep
// their type.
// CHECK-LABEL: func.func @left_alone
// CHECK-SAME: memref<32x32xf32> {buddy.kind = "weight"}
// CHECK-SAME: memref<32x32xf32> {buddy.kind = "weight"}
// CHECK-SAME: memref<1x32xf32> {buddy.kind = "weight"}
// CHECK-SAME: memref<32x32xf32> {buddy.kind = "weight"}
// CHECK-SAME: memref<32x32xf32> {buddy.kind = "weight"}
func.func @left_alone(%x: tensor<4x32xf32>, %init: tensor<4x32xf32>, %one: tensor<4x1xf32>,
    %both: memref<32x32xf32> {buddy.kind = "weight", buddy.format = "plain"},
    %added: memref<32x32xf32> {buddy.kind = "weight", buddy.format = "plain"},
    %column: memref<1x32xf32> {buddy.kind = "weight", buddy.format = "plain"},
    %table: memref<32x32xf32> {buddy.kind = "weight", buddy.format = "plain"},
    %none: memref<32x32xf32> {buddy.kind = "weight"},
    %i: index, %y: memref<4x32xf32>, %s: memref<32x32xf32>, %z: memref<4x1xf32>, %e: memref<f32>) attributes {buddy.entry} {
  %w0 = bufferization.to_tensor %both restrict : memref<32x32xf32> to tensor<32x32xf32>
  %w1 = bufferization.to_tensor %added restrict : memref<32x32xf32> to tensor<32x32xf32>
  %w2 = bufferization.to_tensor %column restrict : memref<1x32xf32> to tensor<1x32xf32>
  %w3 = bufferization.to_tensor %table restrict : memref<32x32xf32> to tensor<32x32xf32>
  %w4 = bufferization.to_tensor %none restrict : memref<32x32xf32> to tensor<32x32xf32>
  %r0 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %w0 : tensor<4x32xf32>, tensor<32x32xf32>) outs(%init : tensor<4x32xf32>) -> tensor<4x32xf32>
  %r1 = linalg.contract indexing_maps = [#a, #bt, #c] ins(%r0, %w0 : tensor<4x32xf32>, tensor<32x32xf32>) outs(%init : tensor<4x32xf32>) -> tensor<4x32xf32>
  %r2 = linalg.contract indexing_maps = [#a, #b, #c] ins(%r1, %w1 : tensor<4x32xf32>, tensor<32x32xf32>) outs(%init : tensor<4x32xf32>) -> tensor<4x32xf32>
  %r3 = linalg.contract indexing_maps = [#a, #b, #c] ins(%r2, %w4 : tensor<4x32xf32>, tensor<32x32xf32>) outs(%init : tensor<4x32xf32>) -> tensor<4x32xf32>
  %r4 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %w2 : tensor<4x32xf32>, tensor<1x32xf32>) outs(%one : tensor<4x1xf32>) -> tensor<4x1xf32>
  %es = tensor.empty() : tensor<32x32xf32>
  %sum = linalg.add ins(%w1, %w1 : tensor<32x32xf32>, tensor<32x32xf32>) outs(%es : tensor<32x32xf32>) -> tensor<32x32xf32>
  %element = tensor.extract %w3[%i, %i] : tensor<32x32xf32>
  memref.store %element, %e[] : memref<f32>
  bufferization.materialize_in_destination %r3 in restrict writable %y : (tensor<4x32xf32>, memref<4x32xf32>) -> ()
  bufferization.materialize_in_destination %r4 in restrict writable %z : (tensor<4x1xf32>, memref<4x1xf32>) -> ()
  bufferization.materialize_in_destination %sum in restrict writable %s : (tensor<32x32xf32>, memref<32x32xf32>) -> ()
  return
}

// Two entries multiply with one weight, by name: it is packed for both.
// CHECK-LABEL: func.func @shared_by_products
// CHECK-SAME: memref<3x65x32xf32> {{.*}}buddy.name = "shared"
// CHECK-LABEL: func.func @shared_by_products_too
// CHECK-SAME: memref<3x65x32xf32> {{.*}}buddy.name = "shared"
func.func @shared_by_products(%x: tensor<4x65xf32>, %init: tensor<4x70xf32>,
    %w: memref<70x65xf32> {buddy.kind = "weight", buddy.name = "shared", buddy.format = "plain"}, %y: memref<4x70xf32>) attributes {buddy.entry} {
  %wt = bufferization.to_tensor %w restrict : memref<70x65xf32> to tensor<70x65xf32>
  %r = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %wt : tensor<4x65xf32>, tensor<70x65xf32>) outs(%init : tensor<4x70xf32>) -> tensor<4x70xf32>
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<4x70xf32>, memref<4x70xf32>) -> ()
  return
}
func.func @shared_by_products_too(%x: tensor<4x65xf32>, %init: tensor<4x70xf32>,
    %w: memref<70x65xf32> {buddy.kind = "weight", buddy.name = "shared", buddy.format = "plain"}, %y: memref<4x70xf32>) attributes {buddy.entry} {
  %wt = bufferization.to_tensor %w restrict : memref<70x65xf32> to tensor<70x65xf32>
  %r = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %wt : tensor<4x65xf32>, tensor<70x65xf32>) outs(%init : tensor<4x70xf32>) -> tensor<4x70xf32>
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<4x70xf32>, memref<4x70xf32>) -> ()
  return
}

// One entry adds to what another multiplies with: the file holds it as it is.
// CHECK-LABEL: func.func @mixed_product
// CHECK-SAME: memref<70x65xf32> {buddy.kind = "weight", buddy.name = "mixed"}
// CHECK-LABEL: func.func @mixed_sum
// CHECK-SAME: memref<70x65xf32> {buddy.kind = "weight", buddy.name = "mixed"}
func.func @mixed_product(%x: tensor<4x65xf32>, %init: tensor<4x70xf32>,
    %w: memref<70x65xf32> {buddy.kind = "weight", buddy.name = "mixed", buddy.format = "plain"}, %y: memref<4x70xf32>) attributes {buddy.entry} {
  %wt = bufferization.to_tensor %w restrict : memref<70x65xf32> to tensor<70x65xf32>
  %r = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %wt : tensor<4x65xf32>, tensor<70x65xf32>) outs(%init : tensor<4x70xf32>) -> tensor<4x70xf32>
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<4x70xf32>, memref<4x70xf32>) -> ()
  return
}
func.func @mixed_sum(%x: tensor<4x65xf32>, %init: tensor<4x70xf32>,
    %w: memref<70x65xf32> {buddy.kind = "weight", buddy.name = "mixed", buddy.format = "plain"}, %y: memref<70x65xf32>) attributes {buddy.entry} {
  %wt = bufferization.to_tensor %w restrict : memref<70x65xf32> to tensor<70x65xf32>
  %r = linalg.add ins(%wt, %wt : tensor<70x65xf32>, tensor<70x65xf32>) outs(%wt : tensor<70x65xf32>) -> tensor<70x65xf32>
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<70x65xf32>, memref<70x65xf32>) -> ()
  return
}
