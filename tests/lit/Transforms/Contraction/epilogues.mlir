// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(buddy-lower-contractions,canonicalize,cse))" | FileCheck %s

// A bias and an activation: computed on a task's sums, which lie in a buffer of
// the thread. C and its fill are gone; sums between blocks of the reduction stay in
// that buffer, and the op runs once, after the last.
// CHECK-LABEL: func.func @bias
// CHECK-NOT: memref.alloc()
// CHECK: omp.parallel
// CHECK: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<64xf32>
// CHECK: scf.for {{.*}} step %c32
// CHECK: vector.fma
// CHECK: vector.store %{{.*}}, %[[SUMS]]
// CHECK-DAG: %[[PART:.*]] = memref.subview %arg3
// CHECK-DAG: %[[BIAS:.*]] = memref.subview %arg2
// CHECK-DAG: %[[TILE:.*]] = memref.reinterpret_cast %[[SUMS]] {{.*}} strides: [8, 1]
// CHECK: linalg.generic
// CHECK-SAME: ins({{.*}}%[[BIAS]], {{.*}}) outs(%[[PART]]
// CHECK: arith.maximumf
// CHECK: omp.yield
// CHECK-NOT: linalg.generic
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
#id = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
func.func @bias(%a: memref<8x64xf32>, %b: memref<64x32xf32>, %bias: memref<32xf32>, %out: memref<8x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = memref.alloc() : memref<8x32xf32>
  linalg.fill ins(%zero : f32) outs(%c : memref<8x32xf32>)
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x64xf32>, memref<64x32xf32>) outs(%c : memref<8x32xf32>)
  linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %bias : memref<8x32xf32>, memref<32xf32>) outs(%out : memref<8x32xf32>) {
  ^bb0(%s: f32, %e: f32, %o: f32):
    %t = arith.addf %s, %e : f32
    %r = arith.maximumf %t, %zero : f32
    linalg.yield %r : f32
  }
  return
}

// -----

// In place on C, from a sum that is rounded as it would be in C. The other input is
// written in between, which is no hindrance: the contraction moves to the op.
// CHECK-LABEL: func.func @in_place
// CHECK: linalg.fill {{.*}} outs(%arg3
// CHECK: omp.parallel
// CHECK: x86vector.avx512.dot
// CHECK: linalg.generic
// CHECK: ^bb0(%{{.*}}: bf16, %[[SUM:.*]]: f32, %{{.*}}: bf16):
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[SUM]] : f32 to bf16
// CHECK: arith.mulf %[[ROUNDED]]
// CHECK: omp.yield
// CHECK-NOT: linalg.generic
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64, pairs = true>
#id = affine_map<(m, n) -> (m, n)>
func.func @in_place(%a: memref<8x64xbf16>, %b: memref<64x32xbf16>, %c: memref<8x32xbf16>, %e: memref<8x32xbf16>) {
  %zero = arith.constant 0.0 : bf16
  linalg.fill ins(%zero : bf16) outs(%c : memref<8x32xbf16>)
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x64xbf16>, memref<64x32xbf16>) outs(%c : memref<8x32xbf16>)
  linalg.fill ins(%zero : bf16) outs(%e : memref<8x32xbf16>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%e : memref<8x32xbf16>) outs(%c : memref<8x32xbf16>) {
  ^bb0(%x: bf16, %s: bf16):
    %r = arith.mulf %s, %x : bf16
    linalg.yield %r : bf16
  }
  return
}

// -----

// Dot products put a task's sums in C, which the op reads at once. If there may be nothing to sum, the
// fill and the op stay for that.
// CHECK-LABEL: func.func @dots
// CHECK: %[[C:.*]] = memref.alloc
// CHECK: %[[EMPTY:.*]] = arith.cmpi eq, %{{.*}}, %c0
// CHECK: scf.if %[[EMPTY]] {
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK: } else {
// CHECK: omp.parallel
// CHECK: %[[SUM:.*]] = vector.reduction
// CHECK: %[[TOTAL:.*]] = arith.addf %[[SUM]]
// CHECK: memref.store %[[TOTAL]], %[[C]]
// CHECK: %[[PART:.*]] = memref.subview %[[C]]
// CHECK: linalg.generic {{.*}} ins(%[[PART]]
// CHECK: omp.yield
// CHECK-NOT: linalg.generic
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 2, pack_m = 64>
#m = affine_map<(m, n, k) -> (m, k)>
#n = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @dots(%a: memref<1x?xf32>, %b: memref<?x?xf32>, %gate: memref<1x?xf32>, %out: memref<1x?xf32>, %size: index) {
  %zero = arith.constant 0.0 : f32
  %c = memref.alloc(%size) : memref<1x?xf32>
  linalg.fill ins(%zero : f32) outs(%c : memref<1x?xf32>)
  linalg.contract indexing_maps = [#m, #n, #c] {buddy.schedule = #schedule}
      ins(%a, %b : memref<1x?xf32>, memref<?x?xf32>) outs(%c : memref<1x?xf32>)
  linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %gate : memref<1x?xf32>, memref<1x?xf32>) outs(%out : memref<1x?xf32>) {
  ^bb0(%s: f32, %g: f32, %o: f32):
    %r = arith.mulf %s, %g : f32
    linalg.yield %r : f32
  }
  return
}

// -----

// What is not fused, an op for each reason. All stay behind the loops.
#schedule = #buddy.schedule<mr = 2, nr = 1, vl = 8, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 64>
#id = affine_map<(m, n) -> (m, n)>
#swap = affine_map<(m, n) -> (n, m)>
#row = affine_map<(m, n) -> (m)>

// C is read again later.
// CHECK-LABEL: func.func @two_readers
// CHECK: omp.parallel
// CHECK-NOT: linalg.
// CHECK: omp.yield
// CHECK: linalg.generic
// CHECK: memref.load
func.func @two_readers(%a: memref<8x32xf32>, %b: memref<32x8xf32>, %out: memref<8x8xf32>, %i: index) -> f32 {
  %c = memref.alloc() : memref<8x8xf32>
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x32xf32>, memref<32x8xf32>) outs(%c : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : memref<8x8xf32>) outs(%out : memref<8x8xf32>) {
  ^bb0(%s: f32, %o: f32):
    %r = arith.negf %s : f32
    linalg.yield %r : f32
  }
  %x = memref.load %c[%i, %i] : memref<8x8xf32>
  return %x : f32
}

// The caller sees C.
// CHECK-LABEL: func.func @argument
// CHECK: omp.parallel
// CHECK-NOT: linalg.
// CHECK: omp.yield
// CHECK: linalg.generic
func.func @argument(%a: memref<8x32xf32>, %b: memref<32x8xf32>, %c: memref<8x8xf32>, %out: memref<8x8xf32>) {
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x32xf32>, memref<32x8xf32>) outs(%c : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : memref<8x8xf32>) outs(%out : memref<8x8xf32>) {
  ^bb0(%s: f32, %o: f32):
    %r = arith.negf %s : f32
    linalg.yield %r : f32
  }
  return
}

// The result overwrites A, which other tasks still read.
// CHECK-LABEL: func.func @over_a
// CHECK: omp.parallel
// CHECK-NOT: linalg.
// CHECK: omp.yield
// CHECK: linalg.generic
func.func @over_a(%a: memref<8x8xf32>, %b: memref<8x8xf32>) {
  %c = memref.alloc() : memref<8x8xf32>
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%c : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : memref<8x8xf32>) outs(%a : memref<8x8xf32>) {
  ^bb0(%s: f32, %o: f32):
    %r = arith.addf %s, %o : f32
    linalg.yield %r : f32
  }
  return
}

// B changes before the op: the contraction cannot move there.
// CHECK-LABEL: func.func @b_changes
// CHECK: omp.parallel
// CHECK-NOT: linalg.
// CHECK: omp.yield
// CHECK: linalg.fill
// CHECK: linalg.generic
func.func @b_changes(%a: memref<8x32xf32>, %b: memref<32x8xf32>, %out: memref<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = memref.alloc() : memref<8x8xf32>
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x32xf32>, memref<32x8xf32>) outs(%c : memref<8x8xf32>)
  linalg.fill ins(%zero : f32) outs(%b : memref<32x8xf32>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : memref<8x8xf32>) outs(%out : memref<8x8xf32>) {
  ^bb0(%s: f32, %o: f32):
    %r = arith.negf %s : f32
    linalg.yield %r : f32
  }
  return
}

// An input is the output read elsewhere; C is read in two orders; rows are summed;
// the body asks where it is.
// CHECK-LABEL: func.func @other_forms
// CHECK: omp.yield
// CHECK: linalg.generic
// CHECK: omp.yield
// CHECK: linalg.generic
// CHECK: omp.yield
// CHECK: linalg.generic
// CHECK: omp.yield
// CHECK: linalg.generic
// CHECK: return
func.func @other_forms(%a: memref<8x32xf32>, %b: memref<32x8xf32>, %out: memref<8x8xf32>, %sums: memref<8xf32>, %index: memref<8x8xindex>) {
  %c0 = memref.alloc() : memref<8x8xf32>
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x32xf32>, memref<32x8xf32>) outs(%c0 : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c0, %out : memref<8x8xf32>, memref<8x8xf32>) outs(%out : memref<8x8xf32>) {
  ^bb0(%s: f32, %e: f32, %o: f32):
    %r = arith.addf %s, %e : f32
    linalg.yield %r : f32
  }
  %c1 = memref.alloc() : memref<8x8xf32>
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x32xf32>, memref<32x8xf32>) outs(%c1 : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c1, %c1 : memref<8x8xf32>, memref<8x8xf32>) outs(%out : memref<8x8xf32>) {
  ^bb0(%s: f32, %e: f32, %o: f32):
    %r = arith.addf %s, %e : f32
    linalg.yield %r : f32
  }
  %c2 = memref.alloc() : memref<8x8xf32>
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x32xf32>, memref<32x8xf32>) outs(%c2 : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%c2 : memref<8x8xf32>) outs(%sums : memref<8xf32>) {
  ^bb0(%s: f32, %o: f32):
    %r = arith.addf %s, %o : f32
    linalg.yield %r : f32
  }
  %c3 = memref.alloc() : memref<8x8xf32>
  linalg.matmul {buddy.schedule = #schedule} ins(%a, %b : memref<8x32xf32>, memref<32x8xf32>) outs(%c3 : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c3 : memref<8x8xf32>) outs(%index : memref<8x8xindex>) {
  ^bb0(%s: f32, %o: index):
    %i = linalg.index 0 : index
    linalg.yield %i : index
  }
  return
}
