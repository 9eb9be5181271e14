// RUN: buddy-opt %s --buddy-set-target=target=x86-64-v4 --buddy-pack-weights --canonicalize --cse | FileCheck %s
// RUN: buddy-opt %s --buddy-set-target=target=rv64gcv --buddy-pack-weights | FileCheck %s --check-prefix=RVV
// RUN: buddy-opt %s --buddy-set-target=target=x86-64-v4 --buddy-pack-weights=activations=f32 --canonicalize --cse | FileCheck %s --check-prefix=F32

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#bt = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// A product and an element read: packed. Rows are quantised once for both products.
// CHECK-LABEL: func.func @used_well
// CHECK-SAME: memref<3x2x640xi8> {buddy.kind = "weight", buddy.name = "w", buddy.packing = [[P:#buddy.packing<format = "q4_1", n = 70, k = 64, panel = 32, block = 32, bits = 4, zero = 0, mins = true, scale_bits = 16>]], buddy.shape = ["3", "2", "640"]}
// CHECK-SAME: memref<2x2x1088xi8> {{.*}}format = "q8_0"
// CHECK: buddy.quantized_element %{{.*}}[%{{.*}}, %{{.*}}] {packing = [[P]]} : tensor<3x2x640xi8>
// CHECK: %[[Q:.*]]:3 = buddy.quantize ins(%{{.*}} : tensor<?x64xf32>)
// CHECK-SAME: tensor<?x2x32xi8>, tensor<?x2xf32>, tensor<?x2xi32>
// CHECK: buddy.quantized_matmul {buddy.schedule = {{.*}}, packing = [[P]]} ins(%[[Q]]#0, %[[Q]]#1, %[[Q]]#2
// CHECK-NOT: buddy.quantize
// CHECK: buddy.quantized_matmul {{.*}} ins(%[[Q]]#0, %[[Q]]#1, %[[Q]]#2
// CHECK-NOT: linalg.contract
// F32-LABEL: func.func @used_well
// F32: buddy.quantized_element
// F32-NOT: buddy.quantize
// F32: buddy.dequantized_matmul {packing = {{.*}}"q4_1"{{.*}}} ins(%[[ROWS:.*]], %{{.*}} : tensor<?x64xf32>, tensor<3x2x640xi8>)
// F32: buddy.dequantized_matmul {packing = {{.*}}"q8_0"{{.*}}} ins(%[[ROWS]], %{{.*}} : tensor<?x64xf32>, tensor<2x2x1088xi8>)
// RVV-LABEL: func.func @used_well
// RVV-SAME: panel = 16, {{.*}}scale_bits = 32
func.func @used_well(%x: memref<?x64xf32> {buddy.kind = "input"},
    %w: memref<70x64xf32> {buddy.kind = "weight", buddy.name = "w", buddy.format = "q4_1", buddy.shape = ["70", "64"]},
    %v: memref<64x64xf32> {buddy.kind = "weight", buddy.name = "v", buddy.format = "q8_0", buddy.shape = ["64", "64"]},
    %i: index, %e: memref<f32>, %y: memref<?x70xf32>, %z: memref<?x64xf32>) attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %xt = bufferization.to_tensor %x restrict : memref<?x64xf32> to tensor<?x64xf32>
  %wt = bufferization.to_tensor %w restrict : memref<70x64xf32> to tensor<70x64xf32>
  %vt = bufferization.to_tensor %v restrict : memref<64x64xf32> to tensor<64x64xf32>
  %element = tensor.extract %wt[%i, %c0] : tensor<70x64xf32>
  memref.store %element, %e[] : memref<f32>
  %m = tensor.dim %xt, %c0 : tensor<?x64xf32>
  %e0 = tensor.empty(%m) : tensor<?x70xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<?x70xf32>) -> tensor<?x70xf32>
  %r0 = linalg.contract indexing_maps = [#a, #b, #c] ins(%xt, %wt : tensor<?x64xf32>, tensor<70x64xf32>) outs(%f0 : tensor<?x70xf32>) -> tensor<?x70xf32>
  %e1 = tensor.empty(%m) : tensor<?x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?x64xf32>) -> tensor<?x64xf32>
  %r1 = linalg.contract indexing_maps = [#a, #b, #c] ins(%xt, %vt : tensor<?x64xf32>, tensor<64x64xf32>) outs(%f1 : tensor<?x64xf32>) -> tensor<?x64xf32>
  bufferization.materialize_in_destination %r0 in restrict writable %y : (tensor<?x70xf32>, memref<?x70xf32>) -> ()
  bufferization.materialize_in_destination %r1 in restrict writable %z : (tensor<?x64xf32>, memref<?x64xf32>) -> ()
  return
}

// What the output held is added.
// CHECK-LABEL: func.func @accumulates
// CHECK: %[[R:.*]] = buddy.quantized_matmul
// CHECK: linalg.generic {{.*}} ins(%[[R]], %[[BIAS:.*]] : tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: arith.addf
func.func @accumulates(%x: tensor<4x32xf32>, %init: tensor<4x8xf32>,
    %w: memref<8x32xf32> {buddy.kind = "weight", buddy.format = "q4_0"}, %y: memref<4x8xf32>) attributes {buddy.entry} {
  %wt = bufferization.to_tensor %w restrict : memref<8x32xf32> to tensor<8x32xf32>
  %r = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %wt : tensor<4x32xf32>, tensor<8x32xf32>) outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// Columns that are not whole blocks, a weight read along its columns, another use, an unknown
// format: none is packed.
// CHECK-LABEL: func.func @left_alone
// CHECK-SAME: memref<8x33xf32> {buddy.kind = "weight"}
// CHECK-SAME: memref<32x8xf32> {buddy.kind = "weight"}
// CHECK-SAME: memref<8x32xf32> {buddy.kind = "weight"}
// CHECK-SAME: memref<8x32xf32> {buddy.kind = "weight"}
// CHECK-NOT: buddy.quantize
func.func @left_alone(%x: tensor<4x33xf32>, %x32: tensor<4x32xf32>,
    %odd: memref<8x33xf32> {buddy.kind = "weight", buddy.format = "q8_0"},
    %columns: memref<32x8xf32> {buddy.kind = "weight", buddy.format = "q8_0"},
    %added: memref<8x32xf32> {buddy.kind = "weight", buddy.format = "q8_0"},
    %unknown: memref<8x32xf32> {buddy.kind = "weight", buddy.format = "q5_k"},
    %y: memref<4x8xf32>, %s: memref<8x32xf32>) attributes {buddy.entry} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %w0 = bufferization.to_tensor %odd restrict : memref<8x33xf32> to tensor<8x33xf32>
  %w1 = bufferization.to_tensor %columns restrict : memref<32x8xf32> to tensor<32x8xf32>
  %w2 = bufferization.to_tensor %added restrict : memref<8x32xf32> to tensor<8x32xf32>
  %w3 = bufferization.to_tensor %unknown restrict : memref<8x32xf32> to tensor<8x32xf32>
  %r0 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %w0 : tensor<4x33xf32>, tensor<8x33xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r1 = linalg.contract indexing_maps = [#a, #bt, #c] ins(%x32, %w1 : tensor<4x32xf32>, tensor<32x8xf32>) outs(%r0 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r2 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x32, %w2 : tensor<4x32xf32>, tensor<8x32xf32>) outs(%r1 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r3 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x32, %w3 : tensor<4x32xf32>, tensor<8x32xf32>) outs(%r2 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %es = tensor.empty() : tensor<8x32xf32>
  %sum = linalg.add ins(%w2, %w2 : tensor<8x32xf32>, tensor<8x32xf32>) outs(%es : tensor<8x32xf32>) -> tensor<8x32xf32>
  bufferization.materialize_in_destination %r3 in restrict writable %y : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  bufferization.materialize_in_destination %sum in restrict writable %s : (tensor<8x32xf32>, memref<8x32xf32>) -> ()
  return
}

// Through calls: a layer's argument is packed if every call passes a weight of one packing.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: tensor<1x1x640xi8>
// CHECK-SAME: tensor<8x32xf32>
func.func private @layer(%x: tensor<4x32xf32>, %w: tensor<8x32xf32>, %v: tensor<8x32xf32>, %init: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %w : tensor<4x32xf32>, tensor<8x32xf32>) outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %v : tensor<4x32xf32>, tensor<8x32xf32>) outs(%r : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @layers
// CHECK-SAME: memref<1x1x640xi8> {{.*}}memref<1x1x640xi8>
// CHECK-SAME: memref<8x32xf32> {buddy.kind = "weight"}
func.func @layers(%x: tensor<4x32xf32>, %init: tensor<4x8xf32>,
    %w0: memref<8x32xf32> {buddy.kind = "weight", buddy.format = "q4_1"},
    %w1: memref<8x32xf32> {buddy.kind = "weight", buddy.format = "q4_1"},
    %v0: memref<8x32xf32> {buddy.kind = "weight", buddy.format = "q4_1"},
    %v1: tensor<8x32xf32>, %y: memref<4x8xf32>) attributes {buddy.entry} {
  %w0t = bufferization.to_tensor %w0 restrict : memref<8x32xf32> to tensor<8x32xf32>
  %w1t = bufferization.to_tensor %w1 restrict : memref<8x32xf32> to tensor<8x32xf32>
  %v0t = bufferization.to_tensor %v0 restrict : memref<8x32xf32> to tensor<8x32xf32>
  %a = call @layer(%x, %w0t, %v0t, %init) : (tensor<4x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = call @layer(%x, %w1t, %v1, %a) : (tensor<4x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  bufferization.materialize_in_destination %b in restrict writable %y : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}
