// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(buddy-lower-contractions,canonicalize,cse))" | FileCheck %s

#windows = #buddy.windows<image = [14, 14], kernel = [3, 3], strides = [1, 1], dilations = [1, 1]>
#schedule = #buddy.schedule<mr = 8, nr = 1, vl = 8, scalable = false, mc = 8, kc = 64, ku = 1, dot_m = 8, pack_m = 64>
#x = affine_map<(n, f, p, k) -> (n, k floordiv 9, p floordiv 14 + (k mod 9) floordiv 3, p mod 14 + k mod 3)>
#w = affine_map<(n, f, p, k) -> (f, k)>
#c = affine_map<(n, f, p, k) -> (n, f, p)>

// Of an image with zeros around it, made for this, the zeros are left out by masks
// and never stored: neither the padded image nor its fill and copy remain. Eight
// points lie in two rows at most; what the second has is merged with the first.
// CHECK-LABEL: func.func @padded
// CHECK-SAME: (%[[X:[^:]*]]: memref<2x4x14x14xf32>
// CHECK-NOT: memref.alloc()
// CHECK-NOT: memref.copy
// CHECK: %[[PANEL:.*]] = memref.alloca() {alignment = 64 : i64} : memref<512xf32>
// CHECK: scf.for {{.*}} to %c9
// CHECK-DAG: vector.create_mask
// CHECK: scf.for
// CHECK: %[[FIRST:.*]] = vector.maskedload %[[X]]
// CHECK: %[[BOTH:.*]] = vector.maskedload %[[X]]{{.*}}, %[[FIRST]] :
// CHECK: vector.store %[[BOTH]], %[[PANEL]]
// CHECK: vector.fma
// CHECK-NOT: linalg
func.func @padded(%x: memref<2x4x14x14xf32>, %w: memref<8x36xf32>, %c: memref<2x8x196xf32>) {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<2x4x16x16xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<2x4x16x16xf32>)
  %s = memref.subview %p[0, 0, 1, 1] [2, 4, 14, 14] [1, 1, 1, 1]
      : memref<2x4x16x16xf32> to memref<2x4x14x14xf32, strided<[1024, 256, 16, 1], offset: 17>>
  memref.copy %x, %s : memref<2x4x14x14xf32> to memref<2x4x14x14xf32, strided<[1024, 256, 16, 1], offset: 17>>
  linalg.fill ins(%zero : f32) outs(%c : memref<2x8x196xf32>)
  linalg.generic {indexing_maps = [#x, #w, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %w : memref<2x4x16x16xf32>, memref<8x36xf32>) outs(%c : memref<2x8x196xf32>)
      attrs = {buddy.schedule = #schedule, buddy.windows = #windows} {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  }
  return
}

// -----

#windows = #buddy.windows<image = [14, 14], kernel = [3, 3], strides = [1, 1], dilations = [1, 1]>
#schedule = #buddy.schedule<mr = 8, nr = 1, vl = 8, scalable = false, mc = 8, kc = 64, ku = 1, dot_m = 8, pack_m = 64>
#x = affine_map<(n, f, p, k) -> (n, k floordiv 9, p floordiv 14 + (k mod 9) floordiv 3, p mod 14 + k mod 3)>
#w = affine_map<(n, f, p, k) -> (f, k)>
#c = affine_map<(n, f, p, k) -> (n, f, p)>

// Somebody else reads the padded image: it stays.
// CHECK-LABEL: func.func @shared
// CHECK: %[[P:.*]] = memref.alloc()
// CHECK: memref.copy
// CHECK: vector.maskedload %[[P]]
// CHECK: return %[[P]]
func.func @shared(%x: memref<2x4x14x14xf32>, %w: memref<8x36xf32>, %c: memref<2x8x196xf32>) -> memref<2x4x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<2x4x16x16xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<2x4x16x16xf32>)
  %s = memref.subview %p[0, 0, 1, 1] [2, 4, 14, 14] [1, 1, 1, 1]
      : memref<2x4x16x16xf32> to memref<2x4x14x14xf32, strided<[1024, 256, 16, 1], offset: 17>>
  memref.copy %x, %s : memref<2x4x14x14xf32> to memref<2x4x14x14xf32, strided<[1024, 256, 16, 1], offset: 17>>
  linalg.generic {indexing_maps = [#x, #w, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %w : memref<2x4x16x16xf32>, memref<8x36xf32>) outs(%c : memref<2x8x196xf32>)
      attrs = {buddy.schedule = #schedule, buddy.windows = #windows} {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  }
  return %p : memref<2x4x16x16xf32>
}

// -----

#windows = #buddy.windows<image = [14, 14], kernel = [3, 3], strides = [1, 1], dilations = [1, 1]>
#schedule = #buddy.schedule<mr = 8, nr = 1, vl = 8, scalable = false, mc = 8, kc = 64, ku = 1, dot_m = 8, pack_m = 64>
#x = affine_map<(n, f, p, k) -> (n, k floordiv 9, p floordiv 14 + (k mod 9) floordiv 3, p mod 14 + k mod 3)>
#w = affine_map<(n, f, p, k) -> (f, k)>
#c = affine_map<(n, f, p, k) -> (n, f, p)>

// The image is cleared after the copy: what is read are zeros, not the copied elements.
// CHECK-LABEL: func.func @cleared
// CHECK: %[[P:.*]] = memref.alloc()
// CHECK: memref.copy
// CHECK: linalg.fill {{.*}} outs(%[[P]]
// CHECK: vector.maskedload %[[P]]
func.func @cleared(%x: memref<2x4x14x14xf32>, %w: memref<8x36xf32>, %c: memref<2x8x196xf32>) {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<2x4x16x16xf32>
  %s = memref.subview %p[0, 0, 1, 1] [2, 4, 14, 14] [1, 1, 1, 1]
      : memref<2x4x16x16xf32> to memref<2x4x14x14xf32, strided<[1024, 256, 16, 1], offset: 17>>
  memref.copy %x, %s : memref<2x4x14x14xf32> to memref<2x4x14x14xf32, strided<[1024, 256, 16, 1], offset: 17>>
  linalg.fill ins(%zero : f32) outs(%p : memref<2x4x16x16xf32>)
  linalg.generic {indexing_maps = [#x, #w, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %w : memref<2x4x16x16xf32>, memref<8x36xf32>) outs(%c : memref<2x8x196xf32>)
      attrs = {buddy.schedule = #schedule, buddy.windows = #windows} {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  }
  return
}

// -----

#windows = #buddy.windows<image = [8], kernel = [3], strides = [2], dilations = [1]>
#schedule = #buddy.schedule<mr = 8, nr = 1, vl = 8, scalable = false, mc = 8, kc = 64, ku = 1, dot_m = 8, pack_m = 64, pairs = true>
#x = affine_map<(f, p, k) -> (k floordiv 3, p * 2 + k mod 3)>
#w = affine_map<(f, p, k) -> (f, k)>
#c = affine_map<(f, p, k) -> (f, p)>

// A stride of two: every other element of two vectors. Pairs of bf16: a vector goes
// to every other place, the last one without a partner to zeros.
// CHECK-LABEL: func.func @strided_pairs
// CHECK-DAG: %[[ODD:.*]] = arith.constant dense<[false, true,
// CHECK-DAG: %[[EVEN:.*]] = arith.constant dense<[true, false,
// CHECK: vector.store %cst{{.*}} : memref<512xbf16>, vector<16xbf16>
// CHECK: %[[A:.*]] = vector.load %arg0
// CHECK: %[[L:.*]] = vector.shuffle %[[A]], %[[A]] [0, 2, 4, 6,
// CHECK: %[[B:.*]] = vector.maskedload %arg0
// CHECK: %[[S:.*]] = vector.shuffle %[[L]], %[[B]] [0, 1, 2, 3, 8, 10, 12, 14]
// CHECK-DAG: %[[MASK:.*]] = arith.select %{{.*}}, %[[EVEN]], %[[ODD]]
// CHECK-DAG: %[[I:.*]] = vector.interleave %[[S]], %[[S]]
// CHECK: vector.maskedstore %{{.*}}, %[[MASK]], %[[I]]
// CHECK: x86vector.avx512.dot
func.func @strided_pairs(%x: memref<5x17xbf16>, %w: memref<8x15xbf16>, %c: memref<8x8xf32>) {
  linalg.generic {indexing_maps = [#x, #w, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<5x17xbf16>, memref<8x15xbf16>) outs(%c : memref<8x8xf32>)
      attrs = {buddy.schedule = #schedule, buddy.windows = #windows} {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %ax = arith.extf %a : bf16 to f32
    %bx = arith.extf %b : bf16 to f32
    %m = arith.mulf %ax, %bx : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  }
  return
}
