// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-fuse-rows),canonicalize)" | FileCheck %s

#rows = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
#swapped = affine_map<(i, j) -> (j, i)>

// A sum and a scaling of the same rows: one loop, one op on a row for each.
// CHECK-LABEL: func.func @norm
// CHECK: omp.parallel
// CHECK: omp.loop_nest (%[[I:.*]]) : index
// CHECK: memref.subview %{{.*}}[%[[I]], 0] [1, 64] [1, 1] : memref<?x64xf32> to memref<64xf32, strided<[1], offset: ?>>
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction"]
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]
// CHECK-NOT: omp.parallel
func.func @norm(%x: memref<?x64xf32>, %y: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?x64xf32>
  %sum = memref.alloc(%n) : memref<?xf32>
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : memref<?x64xf32>) outs(%sum : memref<?xf32>) {
  ^bb0(%a: f32, %s: f32):
    %r = arith.addf %a, %s : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : memref<?x64xf32>, memref<?xf32>) outs(%y : memref<?x64xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %r = arith.divf %a, %s : f32
    linalg.yield %r : f32
  }
  return
}

// What the first writes the second reads at other rows: apart.
// CHECK-LABEL: func.func @transposed
// CHECK-NOT: omp.parallel
// CHECK: return
func.func @transposed(%x: memref<64x64xf32>, %t: memref<64x64xf32>, %y: memref<64x64xf32>) {
  linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%x : memref<64x64xf32>) outs(%t : memref<64x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#swapped, #all], iterator_types = ["parallel", "parallel"]} ins(%t : memref<64x64xf32>) outs(%y : memref<64x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  return
}

// Other sizes, and an effect in between: apart.
// CHECK-LABEL: func.func @unlike
// CHECK-NOT: omp.parallel
// CHECK: return
func.func @unlike(%x: memref<8x64xf32>, %y: memref<9x64xf32>, %z: memref<9x64xf32>, %flag: i1) {
  %zero = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel"]} outs(%x : memref<8x64xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel"]} outs(%y : memref<9x64xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  }
  buddy.check %flag, "in between"
  linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%y : memref<9x64xf32>) outs(%z : memref<9x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  return
}

// Memory of unknown origin may be what another op writes, at other rows: apart.
// CHECK-LABEL: func.func @unknown
// CHECK-NOT: omp.parallel
// CHECK: return
func.func @unknown(%x: memref<8x64xf32>, %y: memref<8x64xf32>, %z: memref<8x64xf32>, %flag: i1) {
  %zero = arith.constant 0.0 : f32
  %either = arith.select %flag, %x, %y : memref<8x64xf32>
  linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel"]} outs(%x : memref<8x64xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%either : memref<8x64xf32>) outs(%z : memref<8x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  return
}
