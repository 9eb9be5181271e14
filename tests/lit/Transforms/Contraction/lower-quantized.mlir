// RUN: buddy-opt %s --split-input-file --buddy-lower-quantized --canonicalize | FileCheck %s

#packing = #buddy.packing<format = "q4_1", n = 40, k = 64, panel = 32, block = 32, bits = 4, zero = 0, mins = true, scale_bits = 16>
#schedule = #buddy.schedule<mr = 2, nr = 2, vl = 16, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 0, pairs = false>

// Without a byte dot product: bytes are taken apart. Two row tiles, the last panel masked.
module attributes {buddy.target = #buddy.target<name = "x86-64-v4", triple = "x86_64-unknown-linux-gnu", cpu = "x86-64-v4", features = "", abi = "">} {
  // CHECK-LABEL: func.func @matmul
  // CHECK: omp.parallel
  // CHECK: omp.loop_nest (%{{.*}}, %{{.*}}) : index = (%{{.*}}, %{{.*}}) to (%{{.*}}, %c2{{.*}}) step (%c8, %c1)
  // CHECK: scf.for
  // CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
  // CHECK: vector.load %{{.*}} : memref<2x2x640xi8>, vector<64xi8>
  // CHECK: vector.bitcast %{{.*}} : vector<64xi8> to vector<16xi32>
  // CHECK-NOT: call_intrinsic
  // CHECK: arith.muli %{{.*}} : vector<16xi32>
  // CHECK: arith.sitofp %{{.*}} : vector<16xi32> to vector<16xf32>
  // CHECK: vector.fma
  // CHECK: vector.maskedstore
  func.func @matmul(%q: memref<?x2x32xi8>, %d: memref<?x2xf32>, %s: memref<?x2xi32>, %w: memref<2x2x640xi8>, %c: memref<?x40xf32>) {
    buddy.quantized_matmul {packing = #packing, buddy.schedule = #schedule} ins(%q, %d, %s, %w : memref<?x2x32xi8>, memref<?x2xf32>, memref<?x2xi32>, memref<2x2x640xi8>) outs(%c : memref<?x40xf32>)
    return
  }

  // Blocks of a panel are dequantised for a contraction with it; the reduction is no multiple of
  // the blocks taken at once, or it is.
  // CHECK-LABEL: func.func @floats
  // CHECK: omp.parallel
  // CHECK: %[[PANEL:.*]] = memref.alloc() {{.*}} : memref<1x64x32xf32>
  // CHECK: linalg.fill
  // CHECK: arith.sitofp %{{.*}} : vector<16xi32> to vector<16xf32>
  // CHECK: vector.fma
  // CHECK: vector.store %{{.*}}, %[[PANEL]]
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[PANEL]] : memref<?x64xf32, {{.*}}>, memref<1x64x32xf32>)
  // CHECK-SAME: buddy.schedule
  func.func @floats(%x: memref<?x64xf32>, %w: memref<2x2x640xi8>, %c: memref<?x40xf32>) {
    buddy.dequantized_matmul {packing = #packing} ins(%x, %w : memref<?x64xf32>, memref<2x2x640xi8>) outs(%c : memref<?x40xf32>)
    return
  }

  // CHECK-LABEL: func.func @rows
  // CHECK: math.absf %{{.*}} : vector<16xf32>
  // CHECK: vector.reduction <maximumf>
  // CHECK: math.roundeven
  // CHECK: arith.maxnumf
  // CHECK: arith.fptosi
  // CHECK: vector.store %{{.*}} : memref<?x2x32xi8>, vector<16xi8>
  func.func @rows(%x: memref<?x64xf32>, %q: memref<?x2x32xi8>, %d: memref<?x2xf32>, %s: memref<?x2xi32>) {
    buddy.quantize ins(%x : memref<?x64xf32>) outs(%q, %d, %s : memref<?x2x32xi8>, memref<?x2xf32>, memref<?x2xi32>)
    return
  }

  // CHECK-LABEL: func.func @element
  // CHECK-NOT: buddy.
  // CHECK: memref.load %{{.*}} : memref<2x2x640xi8>
  // CHECK: arith.select
  // CHECK: return %{{.*}} : f32
  func.func @element(%w: memref<2x2x640xi8>, %i: index, %j: index) -> f32 {
    %0 = buddy.quantized_element %w[%i, %j] {packing = #packing} : memref<2x2x640xi8>
    return %0 : f32
  }

  // Tensors are not touched.
  // CHECK-LABEL: func.func @tensor
  // CHECK: buddy.quantized_element
  func.func @tensor(%w: tensor<2x2x640xi8>, %i: index) -> f32 {
    %0 = buddy.quantized_element %w[%i, %i] {packing = #packing} : tensor<2x2x640xi8>
    return %0 : f32
  }
}

// -----

#packing = #buddy.packing<format = "q8_0", n = 64, k = 32, panel = 32, block = 32, bits = 8, zero = 128, mins = false, scale_bits = 16>
#schedule = #buddy.schedule<mr = 4, nr = 2, vl = 16, scalable = false, mc = 8, kc = 32, ku = 1, dot_m = 0, pack_m = 0, pairs = false>

// With one. The zero point starts the sums, and whole panels need no mask.
module attributes {buddy.target = #buddy.target<name = "sapphirerapids", triple = "x86_64-unknown-linux-gnu", cpu = "sapphirerapids", features = "", abi = "">} {
  // CHECK-LABEL: func.func @matmul
  // CHECK: arith.muli %{{.*}}, %c-128_i32
  // CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
  // CHECK-NOT: vector.maskedstore
  func.func @matmul(%q: memref<?x1x32xi8>, %d: memref<?x1xf32>, %s: memref<?x1xi32>, %w: memref<2x1x1088xi8>, %c: memref<?x64xf32>) {
    buddy.quantized_matmul {packing = #packing, buddy.schedule = #schedule} ins(%q, %d, %s, %w : memref<?x1x32xi8>, memref<?x1xf32>, memref<?x1xi32>, memref<2x1x1088xi8>) outs(%c : memref<?x64xf32>)
    return
  }
}

// -----

#packing = #buddy.packing<format = "q8_0", n = 64, k = 32, panel = 32, block = 32, bits = 8, zero = 128, mins = false, scale_bits = 16>
#schedule = #buddy.schedule<mr = 4, nr = 2, vl = 16, scalable = false, mc = 32, kc = 32, ku = 1, dot_m = 0, pack_m = 0, tile_m = 16>

// By byte tiles: x where it lies, the weight's groups in the panel, the zero
// point by a product with it. Both vectors of the panel; the last rows by dot
// products.
module attributes {buddy.target = #buddy.target<name = "sapphirerapids", triple = "x86_64-unknown-linux-gnu", cpu = "sapphirerapids", features = "", abi = "">} {
  // CHECK-LABEL: func.func @tiles
  // CHECK-DAG: %[[MINUS:.*]] = arith.constant dense<-128> : vector<64xi8>
  // CHECK: vector.store %[[MINUS]], %[[BYTES:.*]][%c0] : memref<512xi8>
  // CHECK: scf.for
  // CHECK: %[[ZEROS:.*]] = amx.tile_load %[[BYTES]][%c0], %c64 : memref<512xi8> into !amx.tile<8x64xi8>
  // CHECK: %[[X:.*]] = amx.tile_load %arg0[%{{.*}}, %{{.*}}, %c0], %{{.*}} : memref<?x1x32xi8> into !amx.tile<16x32xi8>
  // CHECK: %[[W:.*]] = amx.tile_load %arg3[%{{.*}}, %{{.*}}, %c0], %c128 : memref<2x1x1088xi8> into !amx.tile<8x64xi8>
  // CHECK: %[[START:.*]] = amx.tile_zero
  // CHECK: %[[OFF:.*]] = amx.tile_muli %[[X]], %[[ZEROS]], %[[START]]
  // CHECK: %[[SUM:.*]] = amx.tile_muli %[[X]], %[[W]] zext, %[[OFF]]
  // CHECK: amx.tile_store %{{.*}}[%c0], %[[SUM]], %c16
  // CHECK-COUNT-16: vector.fma
  // CHECK: amx.tile_load %arg3[%{{.*}}, %{{.*}}, %c64], %c128
  // CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
  func.func @tiles(%q: memref<?x1x32xi8>, %d: memref<?x1xf32>, %s: memref<?x1xi32>, %w: memref<2x1x1088xi8>, %c: memref<?x64xf32>) {
    buddy.quantized_matmul {packing = #packing, buddy.schedule = #schedule} ins(%q, %d, %s, %w : memref<?x1x32xi8>, memref<?x1xf32>, memref<?x1xi32>, memref<2x1x1088xi8>) outs(%c : memref<?x64xf32>)
    return
  }
}

// -----

#packing = #buddy.packing<format = "q4_1", n = 32, k = 32, panel = 32, block = 32, bits = 4, zero = 0, mins = true, scale_bits = 16>
#schedule = #buddy.schedule<mr = 4, nr = 2, vl = 16, scalable = false, mc = 32, kc = 32, ku = 1, dot_m = 0, pack_m = 0, tile_m = 16>

// Four bits become bytes in a buffer: the low halves are the first four groups.
module attributes {buddy.target = #buddy.target<name = "sapphirerapids", triple = "x86_64-unknown-linux-gnu", cpu = "sapphirerapids", features = "", abi = "">} {
  // CHECK-LABEL: func.func @nibbles
  // CHECK-NOT: dense<-
  // CHECK: arith.andi
  // CHECK: vector.store %{{.*}}, %[[BYTES:.*]][%c0] : memref<512xi8>, vector<64xi8>
  // CHECK: arith.shrui
  // CHECK: vector.store %{{.*}}, %[[BYTES]][%c256] : memref<512xi8>, vector<64xi8>
  // CHECK: amx.tile_load %[[BYTES]][%c0], %c64 : memref<512xi8> into !amx.tile<8x64xi8>
  // CHECK: amx.tile_muli %{{.*}}, %{{.*}} zext, %
  // CHECK-NOT: amx.tile_muli
  // CHECK: amx.tile_store
  func.func @nibbles(%q: memref<?x1x32xi8>, %d: memref<?x1xf32>, %s: memref<?x1xi32>, %w: memref<1x1x640xi8>, %c: memref<?x32xf32>) {
    buddy.quantized_matmul {packing = #packing, buddy.schedule = #schedule} ins(%q, %d, %s, %w : memref<?x1x32xi8>, memref<?x1xf32>, memref<?x1xi32>, memref<1x1x640xi8>) outs(%c : memref<?x32xf32>)
    return
  }
}
