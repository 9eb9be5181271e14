// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(buddy-lower-contractions,canonicalize,cse))" | FileCheck %s

// B contiguous along the columns, sizes that divide: B itself is read, nothing
// is masked or packed, and the sums start from zero instead of a filled C.
// CHECK-LABEL: func.func @direct
// CHECK-NOT: linalg.fill
// CHECK-NOT: memref.alloca()
// CHECK-NOT: masked
// CHECK: omp.loop_nest (%[[ROW:.*]], %[[COL:.*]]) : index {{.*}} collapse(2)
// CHECK: scf.for {{.*}} iter_args
// CHECK-COUNT-2: vector.load %arg1
// CHECK-COUNT-4: vector.fma
// CHECK-NOT: linalg.matmul
#direct = #buddy.schedule<mr = 2, nr = 2, vl = 8, scalable = false, mc = 4, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
func.func @direct(%a: memref<4x32xf32>, %b: memref<32x64xf32>, %c: memref<4x64xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<4x64xf32>)
  linalg.matmul {buddy.schedule = #direct} ins(%a, %b : memref<4x32xf32>, memref<32x64xf32>) outs(%c : memref<4x64xf32>)
  return
}

// -----

// A weight read transposed is packed, in a buffer of the thread, by squares.
// CHECK-LABEL: func.func @packed
// CHECK: omp.parallel
// CHECK-NEXT: %[[PANEL:.*]] = memref.alloca() {alignment = 64 : i64} : memref<128xf32>
// CHECK: vector.shuffle
// CHECK: vector.store %{{.*}}, %[[PANEL]]
// CHECK: vector.load %[[PANEL]]
// CHECK: vector.fma
// CHECK: vector.maskedstore %arg2
#packed = #buddy.schedule<mr = 2, nr = 1, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @packed(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) {
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #packed}
      ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>)
  return
}

// -----

// Few rows of both operands contiguous along the reduction: dot products, chosen
// when the number of rows is known.
// CHECK-LABEL: func.func @dot
// CHECK: %[[MANY:.*]] = arith.cmpi sgt, %{{.*}}, %c2
// CHECK: scf.if %[[MANY]]
// CHECK: } else {
// CHECK: vector.reduction <add>, %{{.*}} fastmath<reassoc>
#dot = #buddy.schedule<mr = 2, nr = 1, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 2, pack_m = 64>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @dot(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) {
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #dot}
      ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>)
  return
}

// -----

// A sum of half-width numbers is rounded once: C is read before the first block
// of the reduction and written after the last; a buffer has the sums between.
// CHECK-LABEL: func.func @half
// CHECK: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<32xf32>
// CHECK: scf.if
// CHECK: vector.maskedload %arg2
// CHECK-NEXT: arith.extf
// CHECK: } else {
// CHECK: vector.load %[[SUMS]]
// CHECK: vector.fma %{{.*}} : vector<4xf32>
// CHECK: arith.truncf %{{.*}} : vector<4xf32> to vector<4xbf16>
// CHECK-NEXT: vector.maskedstore %arg2
// CHECK: vector.store %{{.*}}, %[[SUMS]]
// CHECK-NOT: memref.store %{{.*}}, %arg2
#half = #buddy.schedule<mr = 2, nr = 1, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
func.func @half(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %c: memref<?x?xbf16>) {
  linalg.matmul {buddy.schedule = #half} ins(%a, %b : memref<?x?xbf16>, memref<?x?xbf16>) outs(%c : memref<?x?xbf16>)
  return
}

// -----

// An empty sum is zero: the fill stays for it.
// CHECK-LABEL: func.func @may_be_empty
// CHECK: %[[K:.*]] = memref.dim %arg{{[01]}}, %c{{[01]}}
// CHECK: %[[EMPTY:.*]] = arith.cmpi eq, %[[K]], %c0
// CHECK: scf.if %[[EMPTY]] {
// CHECK-NEXT: linalg.fill
#empty = #buddy.schedule<mr = 2, nr = 1, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
func.func @may_be_empty(%a: memref<4x?xf32>, %b: memref<?x8xf32>, %c: memref<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<4x8xf32>)
  linalg.matmul {buddy.schedule = #empty} ins(%a, %b : memref<4x?xf32>, memref<?x8xf32>) outs(%c : memref<4x8xf32>)
  return
}

// -----

// A fill with another value, or one that something reads in between, is no zero
// to start from.
// CHECK-LABEL: func.func @other_fills
// CHECK: linalg.fill ins(%{{.*}}) outs(%arg2
// CHECK: vector.load %arg2
// CHECK: linalg.fill ins(%{{.*}}) outs(%arg3
// CHECK: memref.load %arg3
// CHECK: vector.load %arg3
#fills = #buddy.schedule<mr = 1, nr = 1, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
func.func @other_fills(%a: memref<4x16xf32>, %b: memref<16x8xf32>, %c: memref<4x8xf32>, %d: memref<4x8xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  linalg.fill ins(%one : f32) outs(%c : memref<4x8xf32>)
  linalg.matmul {buddy.schedule = #fills} ins(%a, %b : memref<4x16xf32>, memref<16x8xf32>) outs(%c : memref<4x8xf32>)
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%d : memref<4x8xf32>)
  %read = memref.load %d[%c0, %c0] : memref<4x8xf32>
  linalg.matmul {buddy.schedule = #fills} ins(%a, %b : memref<4x16xf32>, memref<16x8xf32>) outs(%d : memref<4x8xf32>)
  return %read : f32
}

// -----

// Without a schedule an op is not touched; nor is one that is no contraction.
// CHECK-LABEL: func.func @untouched
// CHECK: linalg.matmul
// CHECK: linalg.add
// CHECK-NOT: vector.
#add = #buddy.schedule<mr = 1, nr = 1, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
func.func @untouched(%a: memref<8x8xf32>, %b: memref<8x8xf32>, %c: memref<8x8xf32>) {
  linalg.matmul ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%c : memref<8x8xf32>)
  linalg.add {buddy.schedule = #add} ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%c : memref<8x8xf32>)
  return
}

// -----

// A weight in panels is read where it lies, a panel after the other, with no masks: only results
// beyond the last column are left out. One tile of rows takes the whole reduction in one block.
// CHECK-LABEL: func.func @panels
// CHECK: %[[PANELS:.*]] = memref.collapse_shape %arg1 {{\[\[}}0], [1, 2]] : memref<3x100x8xf32> into memref<3x800xf32>
// CHECK: %[[KC:.*]] = arith.select %{{.*}}, %c32, %c100
// CHECK-NOT: memref.alloca
// CHECK: scf.for {{.*}} step %[[KC]]
// CHECK-NOT: vector.maskedload %arg1
// CHECK: vector.load %[[PANELS]][%{{.*}}, %{{.*}}] : memref<3x800xf32>, vector<4xf32>
// CHECK: vector.maskedstore %arg2
#panels = #buddy.schedule<mr = 2, nr = 2, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 2, pack_m = 4>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n floordiv 8, k, n mod 8)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @panels(%a: memref<?x100xf32>, %b: memref<3x100x8xf32>, %c: memref<?x21xf32>) {
  linalg.generic {indexing_maps = [#m, #n, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x100xf32>, memref<3x100x8xf32>) outs(%c : memref<?x21xf32>)
      attrs = {buddy.schedule = #panels} {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Panels that the tile does not divide, and a map that only looks like panels, are left alone.
// CHECK-LABEL: func.func @not_panels
// CHECK-COUNT-2: linalg.generic
#wide = #buddy.schedule<mr = 2, nr = 3, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 2, pack_m = 4>
#fits = #buddy.schedule<mr = 2, nr = 2, vl = 4, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 2, pack_m = 4>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n floordiv 8, k, n mod 8)>
#other = affine_map<(m, n, k) -> (n floordiv 4, k, n mod 4)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @not_panels(%a: memref<?x100xf32>, %b: memref<3x100x8xf32>, %d: memref<6x100x8xf32>, %c: memref<?x21xf32>) {
  linalg.generic {indexing_maps = [#m, #n, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x100xf32>, memref<3x100x8xf32>) outs(%c : memref<?x21xf32>)
      attrs = {buddy.schedule = #wide} {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#m, #other, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %d : memref<?x100xf32>, memref<6x100x8xf32>) outs(%c : memref<?x21xf32>)
      attrs = {buddy.schedule = #fits} {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  return
}
