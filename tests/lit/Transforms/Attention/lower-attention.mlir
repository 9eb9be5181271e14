// RUN: buddy-opt %s --buddy-lower-attention --split-input-file | FileCheck %s
// RUN: buddy-opt %s --buddy-lower-attention --buddy-lower-contractions --buddy-lower-loops \
// RUN:   --canonicalize --split-input-file | FileCheck %s --check-prefix=LOOPS

module attributes {buddy.target = #buddy.target<name = "x86-64-v4", triple = "", cpu = "", features = "", abi = "">} {

// One query of 4 heads for each of 2 key heads. Keys are split, and the parts combined.
func.func @decode(%q: memref<8x1x64xf32>, %k: memref<2x?x64xf32, strided<[?, 64, 1]>>,
                  %v: memref<2x?x64xf32>, %o: memref<8x1x64xf32>) {
  // CHECK-LABEL: func.func @decode
  // CHECK-SAME: (%[[Q:.*]]: memref<8x1x64xf32>, %[[K:.*]]: memref<2x?x64xf32, {{.*}}>, %[[V:.*]]: memref<2x?x64xf32>, %[[O:.*]]: memref<8x1x64xf32>)
  // Partial results of the splits, none if there is one.
  // CHECK: %[[SLOTS:.*]] = arith.select
  // CHECK: %[[PARTIAL:.*]] = memref.alloc(%[[SLOTS]]) {{.*}} : memref<?x1x4x64xf32>
  // CHECK: omp.parallel
  // CHECK: memref.alloc() {{.*}} : memref<1x4x64xf32>
  // CHECK: omp.loop_nest {{.*}} to (%{{[^ ]*}}, %{{[^ ]*}}, %[[SPLITS:[^ )]*]]) step
  // CHECK-NOT: memref.alloc(
  // Scaled queries of the group.
  // CHECK: arith.constant 1.250000e-01
  // CHECK: scf.for %[[KEY:.*]] =
  // CHECK: linalg.fill
  // Keys are read where they lie.
  // CHECK: %[[KEYS:.*]] = memref.subview %[[K]][%{{.*}}, %[[KEY]], 0] [1, %[[N:.*]], 64]
  // CHECK: linalg.contract {{.*}}buddy.schedule{{.*}} ins(%{{.*}}, %[[KEYS]] : memref<4x64xf32, {{.*}}>, memref<?x64xf32, {{.*}}>) outs(%[[S:[^ ]*]] : memref<4x?xf32
  // Columns that fill up the last vector.
  // CHECK: scf.if
  // CHECK: arith.select {{.*}}, %{{.*}} : f32
  // CHECK: linalg.generic {{.*}}["parallel", "reduction"]
  // CHECK: arith.maxnumf
  // CHECK: math.exp
  // CHECK: linalg.generic {{.*}}["parallel", "reduction"]
  // CHECK: math.exp
  // CHECK: arith.addf
  // CHECK: linalg.contract {{.*}}buddy.schedule{{.*}} ins(%[[S]], %{{.*}})
  // CHECK: scf.if
  // CHECK: memref.subview %[[O]]
  // CHECK: arith.divf
  // CHECK: else
  // CHECK: memref.subview %[[PARTIAL]]
  // CHECK: scf.if
  // CHECK: omp.parallel
  // CHECK: scf.for %{{.*}} = %{{.*}} to %[[SPLITS]]
  // CHECK: memref.subview %[[O]]
  // CHECK-NOT: omp.parallel

  // One region for the tasks and one for the combination; all buffers of a thread are
  // above its loop over tasks, those of the contractions too.
  // LOOPS-LABEL: func.func @decode
  // LOOPS: omp.parallel
  // LOOPS: memref.alloca() {{.*}} : memref<8192xf32>
  // LOOPS: omp.wsloop
  // LOOPS-NOT: memref.alloc{{a?}}(
  // LOOPS: vector.fma
  // LOOPS-NOT: memref.alloc{{a?}}(
  // LOOPS: omp.parallel
  // LOOPS: omp.wsloop
  // LOOPS-NOT: omp.parallel
  buddy.attention_into %q, %k, %v, %o {causal = "none", scale = 0.125 : f64}
    : (memref<8x1x64xf32>, memref<2x?x64xf32, strided<[?, 64, 1]>>, memref<2x?x64xf32>, memref<8x1x64xf32>) -> ()
  return
}
}

// -----

module attributes {buddy.target = #buddy.target<name = "x86-64-v4", triple = "", cpu = "", features = "", abi = "">} {
// Enough tasks: nothing is split. The range of keys ends at the diagonal.
func.func @causal(%q: memref<16x512x64xbf16>, %k: memref<16x512x64xbf16>, %o: memref<16x512x64xbf16>) {
  // CHECK-LABEL: func.func @causal
  // CHECK-NOT: memref.alloc(
  // CHECK: omp.parallel
  // CHECK-NOT: memref.alloc(%
  // CHECK: omp.loop_nest (%{{[^ ]*}}, %[[BLOCK:[^ ,]*]], %{{[^ ]*}}) : index
  // Costly blocks beside cheap ones.
  // CHECK: arith.divui %[[BLOCK]]
  // CHECK: %[[B:.*]] = arith.select
  // CHECK: %[[FIRST:.*]] = arith.muli %[[B]], %{{.*}}
  // CHECK: %[[END:.*]] = arith.addi %[[FIRST]], %{{.*}}
  // CHECK: %[[LAST:.*]] = arith.minsi %{{.*}}, %[[END]]
  // CHECK: arith.extf %{{.*}} : bf16 to f32
  // CHECK: scf.for %{{.*}} = %{{.*}} to %[[LAST]]
  // Only columns that the first query does not see are masked.
  // CHECK: linalg.contract
  // CHECK: %[[HIDDEN:.*]] = arith.cmpi slt
  // CHECK: scf.if %[[HIDDEN]]
  // CHECK: linalg.index 0
  // CHECK: linalg.contract {{.*}} ins(%{{.*}} : memref<64x?xf32, {{.*}}>, memref<?x64xbf16, {{.*}}>) outs(%{{.*}} : memref<64x64xf32
  // CHECK: arith.truncf %{{.*}} : f32 to bf16
  // CHECK-NOT: omp.parallel
  // CHECK: return
  buddy.attention_into %q, %k, %k, %o {causal = "top_left", scale = 0.125 : f64}
    : (memref<16x512x64xbf16>, memref<16x512x64xbf16>, memref<16x512x64xbf16>, memref<16x512x64xbf16>) -> ()
  return
}
}

// -----

// On tensors there is nothing to lower yet.
func.func @tensors(%q: tensor<2x?x8xf32>, %o: tensor<2x?x8xf32>) -> tensor<2x?x8xf32> {
  // CHECK-LABEL: func.func @tensors
  // CHECK-NEXT: buddy.attention_into
  %r = buddy.attention_into %q, %q, %q, %o {causal = "none", scale = 1.0 : f64}
    : (tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  return %r : tensor<2x?x8xf32>
}

// -----

module attributes {buddy.target = #buddy.target<name = "x86-64-v4", triple = "", cpu = "", features = "", abi = "">} {
// A mask of a row of keys, the same for all heads and queries.
func.func @mask(%q: memref<2x3x8xf32>, %k: memref<2x40x8xf32>, %m: memref<1x40xi8>, %o: memref<2x3x8xf32>) {
  // CHECK-LABEL: func.func @mask
  // CHECK-SAME: %[[M:[^ ]*]]: memref<1x40xi8>
  // CHECK: linalg.contract
  // CHECK: %[[ROW:.*]] = memref.subview %[[M]][0, %{{.*}}] [1, %{{.*}}] [1, 1] : memref<1x40xi8> to memref<?xi8
  // CHECK: linalg.generic {{.*}} ins(%[[ROW]] : {{.*}}) outs(%{{.*}} : memref<3x1x?xf32
  // CHECK: arith.cmpi ne
  // CHECK: arith.select
  // CHECK: linalg.contract
  buddy.attention_into %q, %k, %k, %m, %o {causal = "none", scale = 1.0 : f64}
    : (memref<2x3x8xf32>, memref<2x40x8xf32>, memref<2x40x8xf32>, memref<1x40xi8>, memref<2x3x8xf32>) -> ()
  return
}
}

// -----

// No elements, no loops.
func.func @empty(%q: memref<2x?x8xf32>, %v: memref<2x?x0xf32>, %o: memref<2x?x0xf32>) {
  // CHECK-LABEL: func.func @empty
  // CHECK-NOT: omp.parallel
  // CHECK: return
  buddy.attention_into %q, %q, %v, %o {causal = "none", scale = 1.0 : f64}
    : (memref<2x?x8xf32>, memref<2x?x8xf32>, memref<2x?x0xf32>, memref<2x?x0xf32>) -> ()
  return
}
