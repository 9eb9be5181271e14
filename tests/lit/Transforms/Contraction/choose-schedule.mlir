// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(buddy-set-target{target=x86-64-v4},func.func(buddy-choose-schedule))" | FileCheck %s --check-prefix=AVX512
// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(buddy-set-target{target=x86-64-v3},func.func(buddy-choose-schedule))" | FileCheck %s --check-prefix=AVX2
// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(buddy-set-target{target=znver4},func.func(buddy-choose-schedule))" | FileCheck %s --check-prefix=PAIRS
// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(buddy-set-target{target=sapphirerapids},func.func(buddy-choose-schedule))" | FileCheck %s --check-prefix=TILES
// RUN: buddy-opt %s --split-input-file --pass-pipeline="builtin.module(buddy-set-target{target=rv64gcv},func.func(buddy-choose-schedule))" | FileCheck %s --check-prefix=RVV

// AVX512-LABEL: func.func @matmul
// AVX512: linalg.matmul {buddy.schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false
// AVX2-LABEL: func.func @matmul
// AVX2: linalg.matmul {buddy.schedule = #buddy.schedule<mr = 6, nr = 2, vl = 8, scalable = false
// RVV-LABEL: func.func @matmul
// RVV: linalg.matmul {buddy.schedule = #buddy.schedule<mr = 7, nr = 1, vl = 8, scalable = true
// RVV-SAME: dot_m = 0
func.func @matmul(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// Half-width sums are kept in single precision, so vectors are as long as those.
// AVX512-LABEL: func.func @bf16
// AVX512: linalg.batch_matmul {buddy.schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16
// AVX512-NOT: pairs
// PAIRS-LABEL: func.func @bf16
// PAIRS: linalg.batch_matmul {buddy.schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16
// PAIRS-SAME: kc = 512, {{.*}}, pairs = true>
// TILES-LABEL: func.func @bf16
// TILES: linalg.batch_matmul {buddy.schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16
// TILES-SAME: mc = 512, kc = 512, {{.*}}, pairs = true, tile_m = 8>
func.func @bf16(%a: tensor<?x?x?xbf16>, %b: tensor<?x?x?xbf16>, %c: tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16> {
  %r = linalg.batch_matmul ins(%a, %b : tensor<?x?x?xbf16>, tensor<?x?x?xbf16>) outs(%c : tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16>
  return %r : tensor<?x?x?xbf16>
}

// -----

// Tiles read rows of the first operand: not where those lie across.
// TILES-LABEL: func.func @across
// TILES: mc = 128, {{.*}}, pairs = true>
func.func @across(%a: tensor<?x?xbf16>, %b: tensor<?x?xbf16>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%c : tensor<?x?xbf16>) -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// -----

// Pairs are multiplied if both factors are bf16 and sums are f32.
// TILES-LABEL: func.func @mixed
// TILES-NOT: tile_m
// TILES: return
// PAIRS-LABEL: func.func @mixed
// PAIRS-NOT: pairs = true
// PAIRS: return
func.func @mixed(%a: tensor<?x?xf32>, %b: tensor<?x?xbf16>, %h: tensor<?x?xf16>, %d: tensor<?x?xf64>, %c: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf64>) {
  %0 = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xbf16>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = linalg.matmul ins(%h, %h : tensor<?x?xf16>, tensor<?x?xf16>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  %2 = linalg.matmul ins(%b, %b : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%d : tensor<?x?xf64>) -> tensor<?x?xf64>
  return %0, %1, %2 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf64>
}

// -----

// Columns that fit one vector get one.
// AVX512-LABEL: func.func @narrow
// AVX512: linalg.matmul {buddy.schedule = #buddy.schedule<mr = 8, nr = 1, vl = 16
func.func @narrow(%a: tensor<?x?xf32>, %b: tensor<?x12xf32>, %c: tensor<?x12xf32>) -> tensor<?x12xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x12xf32>) outs(%c : tensor<?x12xf32>) -> tensor<?x12xf32>
  return %r : tensor<?x12xf32>
}

// -----

// The user's schedule stays.
// AVX512-LABEL: func.func @given
// AVX512: buddy.schedule = #buddy.schedule<mr = 4, nr = 1, vl = 8, scalable = false, mc = 8, kc = 16, ku = 1, dot_m = 0, pack_m = 0>
func.func @given(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul {buddy.schedule = #buddy.schedule<mr = 4, nr = 1, vl = 8, scalable = false, mc = 8, kc = 16, ku = 1, dot_m = 0, pack_m = 0>} ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// Scalable f16 vectors need an extension that plain rv64gcv does not have: one
// element at a time, still summed in single precision.
// RVV-LABEL: func.func @f16
// RVV: buddy.schedule = #buddy.schedule<mr = 4, nr = 1, vl = 1, scalable = false
func.func @f16(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf16>, tensor<?x?xf16>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// No contraction of this kind: other bodies, complex numbers, a dot product
// without columns, an element-wise product.
// AVX512-LABEL: func.func @others
// AVX512-NOT: buddy.schedule
#i = affine_map<(i, j) -> (i, j)>
#r = affine_map<(i, j) -> (i)>
#k = affine_map<(i, j) -> (j)>
func.func @others(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?xf32>, %x: tensor<?xf32>,
                  %d: tensor<f32>, %z: tensor<?x?xcomplex<f32>>) {
  %0 = linalg.generic {indexing_maps = [#i, #k, #r], iterator_types = ["parallel", "reduction"]}
      ins(%a, %x : tensor<?x?xf32>, tensor<?xf32>) outs(%c : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.maximumf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  %1 = linalg.generic {indexing_maps = [#i, #k, #r], iterator_types = ["parallel", "reduction"]}
      ins(%a, %x : tensor<?x?xf32>, tensor<?xf32>) outs(%c : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.subf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  %2 = linalg.matmul ins(%z, %z : tensor<?x?xcomplex<f32>>, tensor<?x?xcomplex<f32>>) outs(%z : tensor<?x?xcomplex<f32>>) -> tensor<?x?xcomplex<f32>>
  %3 = linalg.dot ins(%x, %x : tensor<?xf32>, tensor<?xf32>) outs(%d : tensor<f32>) -> tensor<f32>
  %4 = linalg.mul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%a : tensor<?x?xf32>) -> tensor<?x?xf32>
  %5 = linalg.conv_1d ins(%x, %x : tensor<?xf32>, tensor<?xf32>) outs(%c : tensor<?xf32>) -> tensor<?xf32>
  return
}
