// RUN: buddy-opt %s --split-input-file --buddy-bufferize --canonicalize | FileCheck %s

// The library writes into the caller's buffers, of any strides, and reads where
// the values lie; numbers are passed as they are.
// CHECK-LABEL: func.func @direct
// CHECK-SAME:  %[[A:[^:]*]]: memref<4x?xf64, strided<[1, 4]>>, %[[L:[^:]*]]: memref<4x?xf64>, %[[INFO:[^:]*]]: memref<i32>)
// CHECK-NOT:   memref.alloc
// CHECK:       %[[N:.*]] = arith.constant 1 : i64
// CHECK-NOT:   memref.alloc
// CHECK:       buddy.library_call "f"(%[[A]], %[[N]], %[[L]], %[[INFO]]) {destinations = 2 : i64}
// CHECK-NOT:   memref.copy
// CHECK:       return
func.func @direct(%a: memref<4x?xf64, strided<[1, 4]>>, %l: memref<4x?xf64>, %info: memref<i32>) {
  %n = arith.constant 1 : i64
  %c1 = arith.constant 1 : index
  %t = bufferization.to_tensor %a restrict : memref<4x?xf64, strided<[1, 4]>> to tensor<4x?xf64>
  %d = tensor.dim %t, %c1 : tensor<4x?xf64>
  %0 = tensor.empty(%d) : tensor<4x?xf64>
  %1 = tensor.empty() : tensor<i32>
  %r:2 = buddy.library_call "f"(%t, %n, %0, %1) {destinations = 2 : i64}
    : (tensor<4x?xf64>, i64, tensor<4x?xf64>, tensor<i32>) -> (tensor<4x?xf64>, tensor<i32>)
  bufferization.materialize_in_destination %r#0 in restrict writable %l : (tensor<4x?xf64>, memref<4x?xf64>) -> ()
  bufferization.materialize_in_destination %r#1 in restrict writable %info : (tensor<i32>, memref<i32>) -> ()
  return
}

// -----

// What is read is not overwritten: a call that writes where it reads gets a
// buffer of its own.
// CHECK-LABEL: func.func @in_place
// CHECK-SAME:  %[[X:[^:]*]]: memref<4xf32>)
// CHECK:       %[[NEW:.*]] = memref.alloc
// CHECK:       buddy.library_call "f"(%[[X]], %[[NEW]])
// CHECK:       memref.copy %[[NEW]], %[[X]]
func.func @in_place(%x: memref<4xf32>) {
  %t = bufferization.to_tensor %x restrict writable : memref<4xf32> to tensor<4xf32>
  %r = buddy.library_call "f"(%t, %t) {destinations = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  bufferization.materialize_in_destination %r in restrict writable %x : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}
