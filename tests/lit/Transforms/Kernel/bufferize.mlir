// RUN: buddy-opt %s --split-input-file --buddy-bufferize --canonicalize | FileCheck %s

// Two results that CSE gave one zero tensor: each is computed in its own
// destination, none in the other's.
// CHECK-LABEL: func.func @two_products
// CHECK-SAME: %[[A:[^:]*]]: memref<4x4xf32>, %[[X:[^:]*]]: memref<4x4xf32>, %[[Y:[^:]*]]: memref<4x4xf32>)
// CHECK-NOT: memref.alloc
// CHECK-DAG: linalg.matmul ins(%[[A]], %[[A]] : {{.*}}) outs(%[[X]]
// CHECK-DAG: linalg.matmul ins(%[[A]], %[[A]] : {{.*}}) outs(%[[Y]]
// CHECK-NOT: memref.copy
// CHECK: return
func.func @two_products(%a: memref<4x4xf32>, %x: memref<4x4xf32>, %y: memref<4x4xf32>) {
  %z = arith.constant 0.0 : f32
  %t = bufferization.to_tensor %a restrict : memref<4x4xf32> to tensor<4x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = linalg.matmul ins(%t, %t : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = linalg.matmul ins(%t, %t : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  bufferization.materialize_in_destination %p in restrict writable %x : (tensor<4x4xf32>, memref<4x4xf32>) -> ()
  bufferization.materialize_in_destination %q in restrict writable %y : (tensor<4x4xf32>, memref<4x4xf32>) -> ()
  return
}

// -----

// A result that is only seen in the shape of the destination is computed there.
// CHECK-LABEL: func.func @reshaped
// CHECK-SAME: %[[A:[^:]*]]: memref<4x4xf32>, %[[X:[^:]*]]: memref<4x2x2xf32>)
// CHECK-NOT: memref.alloc
// CHECK: %[[C:.*]] = memref.collapse_shape %[[X]]
// CHECK: linalg.matmul ins(%[[A]], %[[A]] : {{.*}}) outs(%[[C]]
// CHECK-NOT: memref.copy
// CHECK: return
func.func @reshaped(%a: memref<4x4xf32>, %x: memref<4x2x2xf32>) {
  %z = arith.constant 0.0 : f32
  %t = bufferization.to_tensor %a restrict : memref<4x4xf32> to tensor<4x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = linalg.matmul ins(%t, %t : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = tensor.expand_shape %p [[0], [1, 2]] output_shape [4, 2, 2] : tensor<4x4xf32> into tensor<4x2x2xf32>
  bufferization.materialize_in_destination %q in restrict writable %x : (tensor<4x2x2xf32>, memref<4x2x2xf32>) -> ()
  return
}

// -----

// A slice of a cache goes to a layer and is updated there: no copy.
// CHECK-LABEL: func.func @cache
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.copy
// CHECK: call @layer(%{{.*}}) : (memref<?x8xf32, strided<[?, 1], offset: ?>>)
// CHECK: return
func.func @cache(%m: memref<2x?x8xf32>) {
  %c = bufferization.to_tensor %m restrict writable : memref<2x?x8xf32> to tensor<2x?x8xf32>
  %i = arith.constant 1 : index
  %d = tensor.dim %c, %i : tensor<2x?x8xf32>
  %s = tensor.extract_slice %c[1, 0, 0] [1, %d, 8] [1, 1, 1] : tensor<2x?x8xf32> to tensor<?x8xf32>
  %u = call @layer(%s) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = tensor.insert_slice %u into %c[1, 0, 0] [1, %d, 8] [1, 1, 1] : tensor<?x8xf32> into tensor<2x?x8xf32>
  bufferization.materialize_in_destination %r in restrict writable %m : (tensor<2x?x8xf32>, memref<2x?x8xf32>) -> ()
  return
}
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: memref<?x8xf32, strided<[?, 1], offset: ?>>
func.func private @layer(%k: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %z = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %r = tensor.insert %z into %k[%c0, %c0] : tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// -----

// Attention reads a slice of a cache in place and writes where its result belongs.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: (%[[Q:.*]]: memref<4x?x8xf32>, %[[M:.*]]: memref<2x32x8xf32>, %[[O:.*]]: memref<4x?x8xf32>
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.copy
// CHECK: %[[K:.*]] = memref.subview %[[M]]
// CHECK: buddy.attention_into %[[Q]], %[[K]], %[[K]], %[[O]] {{.*}} -> ()
// CHECK-NOT: memref.copy
// CHECK: return
func.func @attention(%qm: memref<4x?x8xf32>, %m: memref<2x32x8xf32>, %o: memref<4x?x8xf32>, %n: index) {
  %i = arith.constant 1 : index
  %q = bufferization.to_tensor %qm restrict : memref<4x?x8xf32> to tensor<4x?x8xf32>
  %c = bufferization.to_tensor %m restrict : memref<2x32x8xf32> to tensor<2x32x8xf32>
  %t = memref.dim %qm, %i : memref<4x?x8xf32>
  %k = tensor.extract_slice %c[0, 0, 0] [2, %n, 8] [1, 1, 1] : tensor<2x32x8xf32> to tensor<2x?x8xf32>
  %e = tensor.empty(%t) : tensor<4x?x8xf32>
  %r = buddy.attention_into %q, %k, %k, %e {causal = "bottom_right", scale = 1.0 : f64}
    : (tensor<4x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
  bufferization.materialize_in_destination %r in restrict writable %o : (tensor<4x?x8xf32>, memref<4x?x8xf32>) -> ()
  return
}

// -----

// The old value goes to the output before the state is updated in place.
// CHECK-LABEL: func.func @old_value
// CHECK-SAME: %[[S:[^:]*]]: memref<4xf32>, %[[O:[^:]*]]: memref<4xf32>)
// CHECK-NOT: memref.alloc
// CHECK: memref.copy %[[S]], %[[O]]
// CHECK: linalg.generic {{.*}} ins(%[[S]] : memref<4xf32>) outs(%[[S]] : memref<4xf32>)
// CHECK-NOT: memref.copy
// CHECK: return
#id = affine_map<(d0) -> (d0)>
func.func @old_value(%s: memref<4xf32>, %o: memref<4xf32>) {
  %one = arith.constant 1.0 : f32
  %t = bufferization.to_tensor %s restrict writable : memref<4xf32> to tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %add = arith.addf %in, %one : f32
    linalg.yield %add : f32
  } -> tensor<4xf32>
  bufferization.materialize_in_destination %t in restrict writable %o : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %v in restrict writable %s : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// A product reads all of what it would overwrite: it has a buffer of its own.
// CHECK-LABEL: func.func @square
// CHECK-SAME: %[[S:[^:]*]]: memref<4x4xf32>)
// CHECK: %[[A:.*]] = memref.alloc() {{.*}}: memref<4x4xf32>
// CHECK: linalg.matmul ins(%[[S]], %[[S]] : {{.*}}) outs(%[[A]]
// CHECK: memref.copy %[[A]], %[[S]]
// CHECK: return
func.func @square(%s: memref<4x4xf32>) {
  %z = arith.constant 0.0 : f32
  %t = bufferization.to_tensor %s restrict writable : memref<4x4xf32> to tensor<4x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = linalg.matmul ins(%t, %t : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  bufferization.materialize_in_destination %p in restrict writable %s : (tensor<4x4xf32>, memref<4x4xf32>) -> ()
  return
}

// -----

// Two states change places: one copy keeps what is overwritten first.
// CHECK-LABEL: func.func @swap
// CHECK-SAME: %[[X:[^:]*]]: memref<4xf32>, %[[Y:[^:]*]]: memref<4xf32>)
// CHECK: %[[A:.*]] = memref.alloc() {{.*}}: memref<4xf32>
// CHECK: memref.copy %[[Y]], %[[A]]
// CHECK: memref.copy %[[X]], %[[Y]]
// CHECK: memref.copy %[[A]], %[[X]]
// CHECK-NOT: memref.copy
// CHECK: return
func.func @swap(%x: memref<4xf32>, %y: memref<4xf32>) {
  %s = bufferization.to_tensor %x restrict writable : memref<4xf32> to tensor<4xf32>
  %t = bufferization.to_tensor %y restrict writable : memref<4xf32> to tensor<4xf32>
  bufferization.materialize_in_destination %t in restrict writable %x : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %s in restrict writable %y : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// A result that is also the base of an update is computed in its own output; the
// update is made in a copy of it, which is at once the update's output.
// CHECK-LABEL: func.func @base_of_update
// CHECK-SAME: %[[I:[^:]*]]: memref<4xf32>, %[[U:[^:]*]]: memref<4xf32>, %[[V:[^:]*]]: memref<4xf32>)
// CHECK: linalg.exp ins(%[[I]] : memref<4xf32>) outs(%[[V]] : memref<4xf32>)
// CHECK-NOT: memref.alloc
// CHECK: memref.copy %[[V]], %[[U]]
// CHECK: memref.store %{{.*}}, %[[U]]
// CHECK-NOT: memref.copy
// CHECK: return
func.func @base_of_update(%i: memref<4xf32>, %u: memref<4xf32>, %v: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %t = bufferization.to_tensor %i restrict : memref<4xf32> to tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %x = linalg.exp ins(%t : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = tensor.insert %one into %x[%c0] : tensor<4xf32>
  bufferization.materialize_in_destination %y in restrict writable %u : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %x in restrict writable %v : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// The same in a layer, whose destinations are tensors.
// CHECK-LABEL: func.func private @layer_results
// CHECK-SAME: %[[I:[^:]*]]: memref<{{[^>]*}}>>, %[[U:[^:]*]]: memref<{{[^>]*}}>>, %[[V:[^:]*]]: memref<{{[^>]*}}>>)
// CHECK: linalg.exp ins(%[[I]] : {{.*}}) outs(%[[V]] :
// CHECK-NOT: memref.alloc
// CHECK: memref.copy %[[V]], %[[U]]
// CHECK: memref.store %{{.*}}, %[[U]]
// CHECK-NOT: memref.copy
// CHECK: return
func.func private @layer_results(%t: tensor<4xf32>, %u: tensor<4xf32> {bufferization.writable = true}, %v: tensor<4xf32> {bufferization.writable = true}) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %x = linalg.exp ins(%t : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = tensor.insert %one into %x[%c0] : tensor<4xf32>
  %a = bufferization.materialize_in_destination %y in %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = bufferization.materialize_in_destination %x in %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// Memory that is used in other ways too is written at the end, never computed in.
// CHECK-LABEL: func.func @other_use
// CHECK-SAME: %[[I:[^:]*]]: memref<4xf32>, %[[O:[^:]*]]: memref<4xf32>)
// CHECK: %[[A:.*]] = memref.alloc()
// CHECK: linalg.exp ins(%[[I]] : memref<4xf32>) outs(%[[A]] : memref<4xf32>)
// CHECK: %[[OLD:.*]] = memref.load %[[O]]
// CHECK: memref.copy %[[A]], %[[O]]
// CHECK: return %[[OLD]]
func.func @other_use(%i: memref<4xf32>, %o: memref<4xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %t = bufferization.to_tensor %i restrict : memref<4xf32> to tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %x = linalg.exp ins(%t : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %old = memref.load %o[%c0] : memref<4xf32>
  bufferization.materialize_in_destination %x in restrict writable %o : (tensor<4xf32>, memref<4xf32>) -> ()
  return %old : f32
}

// -----

// Rows of an argument that are updated one after the other: the argument is
// copied to the output once, and the rows are updated there.
// CHECK-LABEL: func.func @updated_rows
// CHECK-SAME: %[[X:[^:]*]]: memref<4x8xf32>, %[[Y:[^:]*]]: memref<4x8xf32>)
// CHECK-NOT: memref.alloc
// CHECK: memref.copy %[[X]], %[[Y]]
// CHECK: scf.for
// CHECK: %[[ROW:.*]] = memref.subview %[[Y]]
// CHECK: linalg.exp ins(%[[ROW]] : {{.*}}) outs(%[[ROW]]
// CHECK: {{^  *}}}
// CHECK-NEXT: return
func.func @updated_rows(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %t = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %u = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %t) -> tensor<4x8xf32> {
    %r = tensor.extract_slice %a[%i, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
    %e = linalg.exp ins(%r : tensor<8xf32>) outs(%r : tensor<8xf32>) -> tensor<8xf32>
    %b = tensor.insert_slice %e into %a[%i, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<4x8xf32>
    scf.yield %b : tensor<4x8xf32>
  }
  bufferization.materialize_in_destination %u in restrict writable %y : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// -----

// A state is not copied first: it is updated where it lies.
// CHECK-LABEL: func.func @updated_state
// CHECK-SAME: %[[X:[^:]*]]: memref<4xf32>)
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.copy
// CHECK: memref.store %{{.*}}, %[[X]]
// CHECK-NOT: memref.copy
// CHECK: return
func.func @updated_state(%x: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %t = bufferization.to_tensor %x restrict writable : memref<4xf32> to tensor<4xf32>
  %u = tensor.insert %one into %t[%c0] : tensor<4xf32>
  bufferization.materialize_in_destination %u in restrict writable %x : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// What is reshaped before it is stored is computed in the output, seen in the
// shape it has before.
// CHECK-LABEL: func.func @reshaped
// CHECK-SAME: %[[X:[^:]*]]: memref<?x3xf32>, %[[Y:[^:]*]]: memref<?xf32>, %[[Z:[^:]*]]: memref<3x4xf32>)
// CHECK-NOT: memref.alloc
// CHECK-DAG: %[[E:.*]] = memref.expand_shape %[[Y]]
// CHECK-DAG: %[[C:.*]] = memref.collapse_shape %[[Z]]
// CHECK-DAG: linalg.exp ins(%[[X]] : {{.*}}) outs(%[[E]]
// CHECK-DAG: linalg.fill {{.*}} outs(%[[C]]
// CHECK: return
func.func @reshaped(%x: memref<?x3xf32>, %y: memref<?xf32>, %z: memref<3x4xf32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %n = memref.dim %x, %c0 : memref<?x3xf32>
  %t = bufferization.to_tensor %x restrict : memref<?x3xf32> to tensor<?x3xf32>
  %e = tensor.empty(%n) : tensor<?x3xf32>
  %p = linalg.exp ins(%t : tensor<?x3xf32>) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  %q = tensor.collapse_shape %p [[0, 1]] : tensor<?x3xf32> into tensor<?xf32>
  %f = tensor.empty() : tensor<12xf32>
  %g = linalg.fill ins(%one : f32) outs(%f : tensor<12xf32>) -> tensor<12xf32>
  %h = tensor.expand_shape %g [[0, 1]] output_shape [3, 4] : tensor<12xf32> into tensor<3x4xf32>
  bufferization.materialize_in_destination %q in restrict writable %y : (tensor<?xf32>, memref<?xf32>) -> ()
  bufferization.materialize_in_destination %h in restrict writable %z : (tensor<3x4xf32>, memref<3x4xf32>) -> ()
  return
}

// -----

// An output with gaps has no other shape: it gets a copy.
// CHECK-LABEL: func.func @reshaped_with_gaps
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: linalg.fill {{.*}} outs(%[[A]]
// CHECK: memref.copy
func.func @reshaped_with_gaps(%z: memref<3x4xf32, strided<[8, 1]>>) {
  %one = arith.constant 1.0 : f32
  %f = tensor.empty() : tensor<12xf32>
  %g = linalg.fill ins(%one : f32) outs(%f : tensor<12xf32>) -> tensor<12xf32>
  %h = tensor.expand_shape %g [[0, 1]] output_shape [3, 4] : tensor<12xf32> into tensor<3x4xf32>
  bufferization.materialize_in_destination %h in restrict writable %z : (tensor<3x4xf32>, memref<3x4xf32, strided<[8, 1]>>) -> ()
  return
}
