// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(buddy-lower-contractions,canonicalize,cse))" | FileCheck %s

// A register tile of two by two tiles: A is read where it lies, B from the panel
// of pairs, whose rows are 32 columns of two elements. Sums start from zero, or
// are in the scratch buffer; C is written from there.
// CHECK-LABEL: func.func @whole
// CHECK-SAME: %[[A:.*]]: memref<?x1024xbf16>, %[[B:.*]]: memref<64x1024xbf16>, %[[C:.*]]: memref<?x64xbf16>
// CHECK-DAG: %[[STRIDE:.*]] = arith.constant 1024 : index
// CHECK-DAG: %[[PAIRS:.*]] = arith.constant 64 : index
// CHECK: %[[LAST:.*]] = memref.alloca() {alignment = 64 : i64} : memref<17408xbf16>
// CHECK: %[[SCRATCH:.*]] = memref.alloca() {alignment = 64 : i64} : memref<2048xf32>
// CHECK: %[[PANEL:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16384xbf16>
// CHECK: %[[START:.*]]:4 = scf.if
// CHECK-COUNT-4: amx.tile_zero : !amx.tile<16x16xf32>
// CHECK: } else {
// CHECK-COUNT-4: amx.tile_load %[[SCRATCH]][{{.*}}], %{{.*}} : memref<2048xf32> into !amx.tile<16x16xf32>
// CHECK: scf.for {{.*}} iter_args(%[[S0:.*]] = %[[START]]#0, %[[S1:.*]] = %[[START]]#1, %[[S2:.*]] = %[[START]]#2, %[[S3:.*]] = %[[START]]#3)
// CHECK: %[[A0:.*]] = amx.tile_load %[[A]][%{{.*}}, %{{.*}}], %[[STRIDE]] : memref<?x1024xbf16> into !amx.tile<16x32xbf16>
// CHECK: %[[A1:.*]] = amx.tile_load %[[A]][%{{.*}}, %{{.*}}], %[[STRIDE]]
// CHECK: %[[B0:.*]] = amx.tile_load %[[PANEL]][%{{.*}}], %[[PAIRS]] : memref<16384xbf16> into !amx.tile<16x32xbf16>
// CHECK: %[[B1:.*]] = amx.tile_load %[[PANEL]][%{{.*}}], %[[PAIRS]]
// CHECK: amx.tile_mulf %[[A0]], %[[B0]], %[[S0]]
// CHECK: amx.tile_mulf %[[A0]], %[[B1]], %[[S1]]
// CHECK: amx.tile_mulf %[[A1]], %[[B0]], %[[S2]]
// CHECK: amx.tile_mulf %[[A1]], %[[B1]], %[[S3]]
// CHECK-COUNT-4: amx.tile_store %[[SCRATCH]]
// CHECK: arith.truncf {{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK: vector.store %{{.*}}, %[[C]]
// The last rows from a copy, two tiles of them or one.
// CHECK: %[[ROW:.*]] = vector.load %[[A]]{{.*}} vector<32xbf16>
// CHECK: vector.store %[[ROW]], %[[LAST]]
// CHECK: amx.tile_load %[[LAST]][%{{.*}}], %c544
// CHECK-COUNT-4: amx.tile_mulf
// CHECK-COUNT-2: amx.tile_mulf
// CHECK-NOT: amx.tile_mulf
// CHECK: return
#schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 64, kc = 512, ku = 4, dot_m = 0, pack_m = 32, pairs = true, tile_m = 1>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @whole(%a: memref<?x1024xbf16>, %b: memref<64x1024xbf16>, %c: memref<?x64xbf16>) {
  %zero = arith.constant 0.0 : bf16
  linalg.fill ins(%zero : bf16) outs(%c : memref<?x64xbf16>)
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #schedule}
      ins(%a, %b : memref<?x1024xbf16>, memref<64x1024xbf16>) outs(%c : memref<?x64xbf16>)
  return
}

// -----

// The rest of the reduction: a step of its own, both factors from buffers where
// zeros follow.
// CHECK-LABEL: func.func @rest
// CHECK-DAG: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : vector<32xbf16>
// CHECK-DAG: %[[ROWS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1024xbf16>
// CHECK: vector.store %[[ZEROS]], %[[RESTB:.*]][
// CHECK: vector.maskedload %arg0{{.*}} : memref<32x40xbf16>, vector<32xi1>, vector<32xbf16>
// CHECK: amx.tile_load %arg0
// CHECK-COUNT-4: amx.tile_mulf
// CHECK: amx.tile_load %{{.*}} : memref<1024xbf16> into !amx.tile<16x32xbf16>
// CHECK: amx.tile_load %[[RESTB]]
// CHECK-COUNT-4: amx.tile_mulf
// CHECK-NOT: amx.tile_mulf
// CHECK: return
#schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 64, kc = 512, ku = 4, dot_m = 0, pack_m = 32, pairs = true, tile_m = 1>
func.func @rest(%a: memref<32x40xbf16>, %b: memref<40x64xbf16>, %c: memref<32x64xf32>) {
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<32x40xbf16>, memref<40x64xbf16>) outs(%c : memref<32x64xf32>)
  return
}

// -----

// How many rows there are is known at run time: few keep dot products of pairs.
// CHECK-LABEL: func.func @few_rows
// CHECK: %[[FEW:.*]] = arith.cmpi slt, %{{.*}}, %c8
// CHECK: scf.if %[[FEW]]
// CHECK-NOT: amx
// CHECK: x86vector.avx512.dot
// CHECK: } else {
// CHECK-NOT: x86vector
// CHECK: amx.tile_mulf
#schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 64, kc = 512, ku = 1, dot_m = 0, pack_m = 0, pairs = true, tile_m = 8>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @few_rows(%a: memref<?x64xbf16>, %b: memref<64x64xbf16>, %c: memref<?x64xbf16>) {
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #schedule}
      ins(%a, %b : memref<?x64xbf16>, memref<64x64xbf16>) outs(%c : memref<?x64xbf16>)
  return
}

// -----

// What tiles cannot read, and what is no product of bf16: A along its rows,
// single precision, one row.
// CHECK-LABEL: func.func @others
// CHECK-NOT: amx.
// CHECK: x86vector.avx512.dot
// CHECK-NOT: amx.
// CHECK: vector.fma
// CHECK-NOT: amx.
// CHECK: x86vector.avx512.dot
// CHECK-NOT: amx.
// CHECK: return
#schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 64, kc = 512, ku = 1, dot_m = 0, pack_m = 0, pairs = true, tile_m = 8>
#m = affine_map<(m, n, k) -> (k, m)>
#n = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @others(%a: memref<64x32xbf16>, %b: memref<64x64xbf16>, %c: memref<32x64xf32>, %d: memref<32x64xf32>, %e: memref<64x64xf32>, %f: memref<1x64xbf16>, %g: memref<1x64xf32>) {
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #schedule}
      ins(%a, %b : memref<64x32xbf16>, memref<64x64xbf16>) outs(%c : memref<32x64xf32>)
  linalg.matmul {buddy.schedule = #schedule} ins(%d, %e : memref<32x64xf32>, memref<64x64xf32>) outs(%c : memref<32x64xf32>)
  linalg.matmul {buddy.schedule = #schedule} ins(%f, %b : memref<1x64xbf16>, memref<64x64xbf16>) outs(%g : memref<1x64xf32>)
  return
}

// -----

// A weight in panels of pairs is read where it lies, but for the rest of the
// reduction, and never packed.
// CHECK-LABEL: func.func @panels
// CHECK: %[[W:.*]] = memref.collapse_shape %arg1 {{.*}} : memref<2x20x32x2xbf16> into memref<2x1280xbf16>
// CHECK: %[[REST:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1024xbf16>
// CHECK: %[[PAIRS:.*]] = vector.load %[[W]]{{.*}} vector<32xbf16>
// CHECK: vector.store %[[PAIRS]], %[[REST]]
// CHECK: amx.tile_load %arg0
// CHECK: amx.tile_load %[[W]][%{{.*}}, %{{.*}}], %c64 : memref<2x1280xbf16> into !amx.tile<16x32xbf16>
// CHECK: amx.tile_load %[[W]][%{{.*}}, %{{.*}}], %c64
// CHECK-COUNT-4: amx.tile_mulf
// CHECK: amx.tile_load %[[REST]]
// CHECK: amx.tile_load %[[REST]]
// CHECK-COUNT-4: amx.tile_mulf
// CHECK: return
#schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false, mc = 64, kc = 512, ku = 1, dot_m = 8, pack_m = 32, pairs = true, tile_m = 8>
func.func @panels(%a: memref<32x40xbf16>, %b: memref<2x20x32x2xbf16>, %c: memref<32x64xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
        affine_map<(m, n, k) -> (n floordiv 32, k floordiv 2, n mod 32, k mod 2)>,
        affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<32x40xbf16>, memref<2x20x32x2xbf16>) outs(%c : memref<32x64xf32>)
      attrs = {buddy.schedule = #schedule} {
  ^bb0(%x: bf16, %w: bf16, %s: f32):
    %xf = arith.extf %x : bf16 to f32
    %wf = arith.extf %w : bf16 to f32
    %p = arith.mulf %xf, %wf : f32
    %r = arith.addf %s, %p : f32
    linalg.yield %r : f32
  }
  return
}
