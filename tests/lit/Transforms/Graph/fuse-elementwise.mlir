// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-fuse-elementwise))" | FileCheck %s

// CHECK-LABEL: func.func @chain
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK-NEXT: arith.addf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @chain(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>, %e: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %a = linalg.exp ins(%x : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %b = linalg.add ins(%a, %y : tensor<?x4xf32>, tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %b : tensor<?x4xf32>
}

// A contraction keeps its operands.
// CHECK-LABEL: func.func @contraction
// CHECK: math.exp
// CHECK: linalg.matmul
func.func @contraction(%x: tensor<4x4xf32>, %e: tensor<4x4xf32>, %o: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = linalg.exp ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%a, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// A square root for each row is not taken for each element.
// CHECK-LABEL: func.func @row_factor
// CHECK: linalg.generic
// CHECK: math.sqrt
// CHECK: linalg.generic
// CHECK: arith.mulf
func.func @row_factor(%x: tensor<?x4xf32>, %s: tensor<?xf32>, %es: tensor<?xf32>, %e: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r = linalg.sqrt ins(%s : tensor<?xf32>) outs(%es : tensor<?xf32>) -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %r : tensor<?x4xf32>, tensor<?xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// What follows a contraction whose result is seen in another shape is computed in
// the contraction's own, so that it can be its epilogue. A reshape of anything else
// stays, and one beside a slice, which would have to be copied for it.
// CHECK-LABEL: func.func @reshaped_result
// CHECK-DAG: %[[P:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK-DAG: %[[R:.*]] = tensor.collapse_shape %arg3 {{.*}} into tensor<4x4xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[R]] : tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: tensor.expand_shape %[[S]]
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4x2x2xf32>)
// CHECK-LABEL: func.func @beside_a_slice
// CHECK: %[[P:.*]] = linalg.generic
// CHECK: %[[E:.*]] = tensor.expand_shape %[[P]]
// CHECK: linalg.generic {{.*}} ins(%[[E]],
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func @reshaped_result(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %o: tensor<4x4xf32>, %r: tensor<4x2x2xf32>)
    -> (tensor<4x2x2xf32>, tensor<4x2x2xf32>) {
  %e = tensor.empty() : tensor<4x2x2xf32>
  %a = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<4x4xf32>
  %b = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 2, 2] : tensor<4x4xf32> into tensor<4x2x2xf32>
  %c = linalg.add ins(%b, %r : tensor<4x2x2xf32>, tensor<4x2x2xf32>) outs(%e : tensor<4x2x2xf32>) -> tensor<4x2x2xf32>
  %d = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 2, 2] : tensor<4x4xf32> into tensor<4x2x2xf32>
  %f = linalg.exp ins(%d : tensor<4x2x2xf32>) outs(%e : tensor<4x2x2xf32>) -> tensor<4x2x2xf32>
  return %c, %f : tensor<4x2x2xf32>, tensor<4x2x2xf32>
}
func.func @beside_a_slice(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %o: tensor<4x4xf32>, %r: tensor<4x2x9xf32>)
    -> tensor<4x2x2xf32> {
  %e = tensor.empty() : tensor<4x2x2xf32>
  %a = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<4x4xf32>
  %b = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 2, 2] : tensor<4x4xf32> into tensor<4x2x2xf32>
  %y = tensor.extract_slice %r[0, 0, 3] [4, 2, 2] [1, 1, 1] : tensor<4x2x9xf32> to tensor<4x2x2xf32>
  %c = linalg.add ins(%b, %y : tensor<4x2x2xf32>, tensor<4x2x2xf32>) outs(%e : tensor<4x2x2xf32>) -> tensor<4x2x2xf32>
  return %c : tensor<4x2x2xf32>
}

// An update of what was there happens once an element, not once for each element
// of a consumer that repeats it; a consumer of the same elements takes it along.
// CHECK-LABEL: func.func @repeated_update
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK: arith.addf
// CHECK-NOT: arith.addf
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
// CHECK-NOT: arith.addf
// CHECK: arith.mulf
// CHECK: return
// CHECK-LABEL: func.func @single_update
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK-NOT: linalg.generic
// CHECK: arith.mulf
// CHECK: return
#i = affine_map<(i) -> (i)>
#rows = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
#columns = affine_map<(i, j) -> (j, i)>
func.func @repeated_update(%x: tensor<4xf32>, %old: tensor<4xf32>, %e: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %u = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%old : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
func.func @single_update(%x: tensor<4x3xf32>, %old: tensor<4x3xf32>, %e: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %u = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x3xf32>) outs(%old : tensor<4x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x3xf32>
  %y = linalg.generic {indexing_maps = [#columns, #all], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<4x3xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}
