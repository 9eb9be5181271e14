// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(buddy-lower-contractions,canonicalize,cse))" | FileCheck %s

// Dot products take bf16 as it lies in memory, a tail with zeros beyond the end.
// CHECK-LABEL: func.func @dot
// CHECK-NOT: arith.extf
// CHECK: %[[X:.*]] = vector.load %arg0[{{.*}}vector<16xbf16>
// CHECK: %[[W:.*]] = vector.load %arg1[{{.*}}vector<16xbf16>
// CHECK: x86vector.avx512.dot %{{.*}}, %[[X]], %[[W]] : vector<16xbf16> -> vector<8xf32>
// CHECK: vector.create_mask %{{.*}} : vector<16xi1>
// CHECK: vector.maskedload %arg0{{.*}} vector<16xbf16>
// CHECK: x86vector.avx512.dot
// CHECK: %[[SUM:.*]] = vector.reduction <add>
// CHECK: arith.truncf %{{.*}} : f32 to bf16
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 2, pack_m = 64, pairs = true>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @dot(%a: memref<1x?xbf16>, %b: memref<?x?xbf16>, %c: memref<1x?xbf16>) {
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #schedule}
      ins(%a, %b : memref<1x?xbf16>, memref<?x?xbf16>) outs(%c : memref<1x?xbf16>)
  return
}

// -----

// A weight with contiguous reduction: words of two elements are transposed. A's
// pairs are read where they lie and broadcast as words; with an even reduction in
// one block nothing is left over, and sums stay in registers.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[PANEL:.*]] = memref.alloca() {alignment = 64 : i64} : memref<256xbf16>
// CHECK-NOT: memref.alloca
// CHECK: vector.bitcast %{{.*}} : vector<16xbf16> to vector<8xi32>
// CHECK: vector.shuffle %{{.*}} : vector<8xi32>, vector<8xi32>
// CHECK: %[[ROW:.*]] = vector.bitcast %{{.*}} : vector<8xi32> to vector<16xbf16>
// CHECK: vector.store %[[ROW]], %[[PANEL]]
// CHECK: %[[COLUMNS:.*]] = vector.load %[[PANEL]]{{.*}} vector<16xbf16>
// CHECK: %[[PAIR:.*]] = vector.load %arg0{{.*}} vector<2xbf16>
// CHECK: %[[WORD:.*]] = vector.bitcast %[[PAIR]] : vector<2xbf16> to vector<1xi32>
// CHECK: %[[ONE:.*]] = vector.extract %[[WORD]][0]
// CHECK: %[[ALL:.*]] = vector.broadcast %[[ONE]] : i32 to vector<8xi32>
// CHECK: %[[ROWS:.*]] = vector.bitcast %[[ALL]] : vector<8xi32> to vector<16xbf16>
// CHECK: x86vector.avx512.dot %{{.*}}, %[[ROWS]], %[[COLUMNS]]
// CHECK-NOT: vector.from_elements
// CHECK: arith.truncf %{{.*}} : vector<8xf32> to vector<8xbf16>
// CHECK-NEXT: vector.store %{{.*}}, %arg2
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64, pairs = true>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @transposed(%a: memref<4x32xbf16>, %b: memref<16x32xbf16>, %c: memref<4x16xbf16>) {
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #schedule}
      ins(%a, %b : memref<4x32xbf16>, memref<16x32xbf16>) outs(%c : memref<4x16xbf16>)
  return
}

// -----

// Contiguous columns: two rows of B are interleaved. An odd reduction ends with a
// pair whose second element is zero in both factors.
// CHECK-LABEL: func.func @interleaved
// CHECK-DAG: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : vector<8xbf16>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : bf16
// CHECK: %[[FIRST:.*]] = vector.load %arg1
// CHECK: %[[SECOND:.*]] = vector.load %arg1
// CHECK: vector.interleave %[[FIRST]], %[[SECOND]]
// CHECK: x86vector.avx512.dot
// CHECK: %[[LAST:.*]] = vector.load %arg1
// CHECK: vector.interleave %[[LAST]], %[[ZEROS]]
// CHECK: %[[A:.*]] = memref.load %arg0
// CHECK: vector.from_elements %[[A]], %[[ZERO]] : vector<2xbf16>
// CHECK: x86vector.avx512.dot
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64, pairs = true>
func.func @interleaved(%a: memref<2x31xbf16>, %b: memref<31x16xbf16>, %c: memref<2x16xf32>) {
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<2x31xbf16>, memref<31x16xbf16>) outs(%c : memref<2x16xf32>)
  return
}

// -----

// A with contiguous rows instead of contiguous pairs: packed once a tile.
// CHECK-LABEL: func.func @columns_of_a
// CHECK: %[[PAIRS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<64xbf16>
// CHECK: %[[EVEN:.*]] = vector.load %arg0{{.*}} vector<2xbf16>
// CHECK: %[[ODD:.*]] = vector.load %arg0{{.*}} vector<2xbf16>
// CHECK: %[[BOTH:.*]] = vector.interleave %[[EVEN]], %[[ODD]]
// CHECK: vector.store %[[BOTH]], %[[PAIRS]]
// CHECK: vector.load %[[PAIRS]]{{.*}} vector<2xbf16>
// CHECK: x86vector.avx512.dot
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64, pairs = true>
#m = affine_map<(m, n, k) -> (k, m)>
#n = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @columns_of_a(%a: memref<32x2xbf16>, %b: memref<32x16xbf16>, %c: memref<2x16xf32>) {
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #schedule}
      ins(%a, %b : memref<32x2xbf16>, memref<32x16xbf16>) outs(%c : memref<2x16xf32>)
  return
}

// -----

// Only bf16 times bf16 summed in f32 has the instruction.
// CHECK-LABEL: func.func @other_types
// CHECK-NOT: x86vector
// CHECK: vector.fma
// CHECK-NOT: x86vector
// CHECK: vector.fma
// CHECK-NOT: x86vector
// CHECK: return
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64, pairs = true>
func.func @other_types(%a: memref<2x32xf32>, %b: memref<32x16xbf16>, %c: memref<2x16xf32>, %d: memref<2x32xf16>, %e: memref<32x16xf16>) {
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<2x32xf32>, memref<32x16xbf16>) outs(%c : memref<2x16xf32>)
  linalg.matmul {buddy.schedule = #schedule} ins(%d, %e : memref<2x32xf16>, memref<32x16xf16>) outs(%c : memref<2x16xf32>)
  return
}
