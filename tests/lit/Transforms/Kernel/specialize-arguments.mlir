// RUN: buddy-opt %s --buddy-specialize-arguments --canonicalize | FileCheck %s

#any = strided<[?, 1], offset: ?>

// All calls pass a contiguous weight, and one learns it of the other; rows come as slices too.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %{{.*}}: memref<8x4xf32>, %{{.*}}: memref<?x4xf32, strided<[?, 1], offset: ?>>)
// CHECK: call @inner(%{{.*}}) : (memref<8x4xf32>) -> ()
func.func private @layer(%w: memref<8x4xf32, #any>, %x: memref<?x4xf32, #any>) {
  call @inner(%w) : (memref<8x4xf32, #any>) -> ()
  %c0 = arith.constant 0 : index
  %v = memref.load %w[%c0, %c0] : memref<8x4xf32, #any>
  memref.store %v, %x[%c0, %c0] : memref<?x4xf32, #any>
  return
}
// CHECK-LABEL: func.func private @inner(%{{.*}}: memref<8x4xf32>)
func.func private @inner(%w: memref<8x4xf32, #any>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %w[%c0, %c0] : memref<8x4xf32, #any>
  return
}
// CHECK-LABEL: func.func @calls
// CHECK: call @layer(%{{.*}}, %{{.*}}) : (memref<8x4xf32>, memref<?x4xf32, strided<[?, 1], offset: ?>>) -> ()
// CHECK: call @layer(%{{.*}}, %{{.*}}) : (memref<8x4xf32>, memref<?x4xf32, strided<[?, 1], offset: ?>>) -> ()
func.func @calls(%v: memref<8x4xf32>, %w: memref<8x4xf32>, %x: memref<?x4xf32>, %y: memref<?x4xf32, #any>) {
  %vc = memref.cast %v : memref<8x4xf32> to memref<8x4xf32, #any>
  %wc = memref.cast %w : memref<8x4xf32> to memref<8x4xf32, #any>
  %xc = memref.cast %x : memref<?x4xf32> to memref<?x4xf32, #any>
  call @layer(%vc, %xc) : (memref<8x4xf32, #any>, memref<?x4xf32, #any>) -> ()
  call @layer(%wc, %y) : (memref<8x4xf32, #any>, memref<?x4xf32, #any>) -> ()
  return
}

// Whoever else may call it passes what it likes.
// CHECK-LABEL: func.func @public(%{{.*}}: memref<8x4xf32, strided<[?, 1], offset: ?>>)
func.func @public(%w: memref<8x4xf32, #any>) {
  return
}
// CHECK-LABEL: func.func @calls_public
func.func @calls_public(%w: memref<8x4xf32>) {
  %c = memref.cast %w : memref<8x4xf32> to memref<8x4xf32, #any>
  call @public(%c) : (memref<8x4xf32, #any>) -> ()
  return
}
