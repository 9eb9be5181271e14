// RUN: buddy-opt %s --pass-pipeline="builtin.module(buddy-set-target{target=x86-64-v4},func.func(buddy-lower-loops))" | FileCheck %s
// RUN: buddy-opt %s --pass-pipeline="builtin.module(buddy-set-target{target=rv64gcv},func.func(buddy-lower-loops))" | FileCheck %s --check-prefix=RVV

// Contiguous: vectors as far as they go, then one of which some lanes do not exist;
// single elements where the target has no masks.
// CHECK-LABEL: func.func @contiguous
// CHECK: %[[N:.*]] = buddy.num_threads
// CHECK: omp.parallel num_threads(%[[N]] : i32)
// CHECK: omp.wsloop nowait
// CHECK: omp.loop_nest (%[[I:.*]]) : index
// CHECK: scf.for %[[J:.*]] =
// CHECK: vector.load %{{.*}}[%[[I]], %[[J]]] : memref<?x?xf32>, vector<16xf32>
// CHECK: arith.mulf %{{.*}} : vector<16xf32>
// CHECK: vector.store
// CHECK: %[[MASK:.*]] = vector.create_mask
// CHECK: scf.for
// CHECK: vector.maskedload {{.*}}, %[[MASK]]
// CHECK: vector.maskedstore {{.*}}, %[[MASK]]
// RVV-LABEL: func.func @contiguous
// RVV: vector.vscale
// RVV: vector.load {{.*}} vector<[4]xf32>
// RVV: memref.load
// RVV: memref.store
func.func @contiguous(%x: memref<?x?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  }
  return
}

// A row's factor is one value for all lanes; an index differs from lane to lane.
// CHECK-LABEL: func.func @broadcast_and_index
// CHECK: %[[S:.*]] = memref.load %{{.*}}[%[[I:.*]]] : memref<?xf32>
// CHECK: vector.broadcast %[[S]] : f32 to vector<16xf32>
// CHECK: vector.step : vector<16xindex>
// CHECK: arith.select %{{.*}} : vector<16xi1>, vector<16xf32>
func.func @broadcast_and_index(%s: memref<?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%s : memref<?xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sle, %j, %i : index
    %m = arith.select %c, %a, %b : f32
    linalg.yield %m : f32
  }
  return
}

// A row's sum: as many accumulators as keep the units busy, one reduction, the
// rest in order.
// CHECK-LABEL: func.func @row_sum
// CHECK: omp.loop_nest (%[[I:.*]]) : index
// CHECK: %[[INIT:.*]] = memref.load %{{.*}}[%[[I]]]
// CHECK: scf.for {{.*}} -> (vector<16xf32>{{((, vector<16xf32>){7})}})
// CHECK: scf.for {{.*}} -> (vector<16xf32>)
// CHECK: %[[R:.*]] = vector.reduction <add>, %{{.*}}, %[[INIT]] fastmath<reassoc>
// CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[R]])
// CHECK: arith.addf %{{.*}}, %[[ACC]] fastmath<reassoc>
// CHECK: memref.store %[[SUM]], %{{.*}}[%[[I]]]
func.func @row_sum(%x: memref<?x?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  }
  return
}

// Scalars: a transposed operand, bits, a function without a vector form, and a
// reduction that is none of the known ones.
// CHECK-LABEL: func.func @transposed
// CHECK-NOT: vector
// CHECK: return
func.func @transposed(%x: memref<?x?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// CHECK-LABEL: func.func @bits
// CHECK-NOT: vector
// CHECK: return
func.func @bits(%x: memref<?xi1>, %y: memref<?xi1>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?xi1>) outs(%y : memref<?xi1>) {
  ^bb0(%a: i1, %b: i1):
    linalg.yield %a : i1
  }
  return
}

// CHECK-LABEL: func.func @sine
// CHECK-NOT: vector
// CHECK: return
func.func @sine(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = math.sin %a : f32
    linalg.yield %s : f32
  }
  return
}

// CHECK-LABEL: func.func @last_seen
// CHECK-NOT: vector
// CHECK: return
func.func @last_seen(%x: memref<?xi64>, %y: memref<i64>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = ["reduction"]} ins(%x : memref<?xi64>) outs(%y : memref<i64>) {
  ^bb0(%a: i64, %b: i64):
    %zero = arith.constant 0 : i64
    %p = arith.cmpi sgt, %a, %zero : i64
    %m = arith.select %p, %a, %b : i64
    linalg.yield %m : i64
  }
  return
}

// Fast-math stays where the order is free: an element-wise sum is exact.
// CHECK-LABEL: func.func @exact
// CHECK-NOT: fastmath
// CHECK: return
func.func @exact(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %a : f32
    linalg.yield %m : f32
  }
  return
}

// CHECK-LABEL: func.func @strided_copy
// CHECK-NOT: memref.copy
// CHECK: memref.store
func.func @strided_copy(%x: memref<4x4xf32, strided<[1, 4]>>, %y: memref<4x4xf32>) {
  memref.copy %x, %y : memref<4x4xf32, strided<[1, 4]>> to memref<4x4xf32>
  return
}

// On tensors nothing is lowered.
// CHECK-LABEL: func.func @tensors
// CHECK: linalg.exp
func.func @tensors(%x: tensor<4xf32>, %e: tensor<4xf32>) -> tensor<4xf32> {
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// One op that writes each element and sums them: the elements are stored in the
// reduction's loop.
// CHECK-LABEL: func.func @exponentials_and_sum
// CHECK: scf.for {{.*}} -> (vector<16xf32>{{((, vector<16xf32>){7})}})
// CHECK: math.exp %{{.*}} : vector<16xf32>
// CHECK: vector.store
// CHECK: vector.reduction <add>
// CHECK: math.exp %{{.*}} : f32
// CHECK: memref.store
// CHECK: memref.store
func.func @exponentials_and_sum(%x: memref<?x?xf32>, %e: memref<?x?xf32>, %s: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : memref<?x?xf32>) outs(%e, %s : memref<?x?xf32>, memref<?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %v = math.exp %a : f32
    %t = arith.addf %v, %c : f32
    linalg.yield %v, %t : f32, f32
  }
  return
}

// Sums of columns: vectors across them, several sums side by side, the rest one
// element at a time.
// CHECK-LABEL: func.func @column_sum
// CHECK: scf.for
// CHECK: %[[INIT:.*]] = vector.load %{{.*}} : memref<?xf32>, vector<16xf32>
// CHECK: %[[PARTS:.*]]:16 = scf.for
// CHECK: vector.load %{{.*}} : memref<?x?xf32>, vector<16xf32>
// CHECK: arith.addf %[[INIT]], %[[PARTS]]#0
// CHECK: %[[ALL:.*]] = arith.addf %{{.*}}, %[[PARTS]]#15
// CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[ALL]]) -> (vector<16xf32>)
// CHECK: vector.store %[[SUM]]
// RVV-LABEL: func.func @column_sum
// RVV: scf.for {{.*}} -> (vector<[4]xf32>)
func.func @column_sum(%x: memref<?x?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  }
  return
}

// Windows of three side by side: vectors across the windows, at shifted places.
// CHECK-LABEL: func.func @windows
// CHECK: scf.for {{.*}} -> (vector<16xf32>)
// CHECK: %[[AT:.*]] = affine.apply
// CHECK: vector.load %{{.*}}[%{{.*}}, %[[AT]]] : memref<?x?xf32>, vector<16xf32>
func.func @windows(%x: memref<?x?xf32>, %w: memref<3xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j + k)>, affine_map<(i, j, k) -> (k)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<?x?xf32>, memref<3xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %f: f32, %b: f32):
    %m = arith.mulf %a, %f : f32
    %s = arith.addf %m, %b : f32
    linalg.yield %s : f32
  }
  return
}

// Windows two apart are not adjacent in memory.
// CHECK-LABEL: func.func @strided_windows
// CHECK-NOT: vector.load
// CHECK: return
func.func @strided_windows(%x: memref<?x?xf32>, %w: memref<3xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j * 2 + k * 2)>, affine_map<(i, j, k) -> (k)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<?x?xf32>, memref<3xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %f: f32, %b: f32):
    %m = arith.mulf %a, %f : f32
    %s = arith.addf %m, %b : f32
    linalg.yield %s : f32
  }
  return
}

// Lanes that do not exist hold zeros: integers are divided one by one.
// CHECK-LABEL: func.func @division
// CHECK: arith.divsi %{{.*}} : vector<16xi32>
// CHECK-NOT: masked
// CHECK: arith.divsi %{{.*}} : i32
func.func @division(%x: memref<20xi32>, %y: memref<20xi32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<20xi32>) outs(%y : memref<20xi32>) {
  ^bb0(%a: i32, %b: i32):
    %m = arith.divsi %a, %a : i32
    linalg.yield %m : i32
  }
  return
}

// Two rows become every other element of one: vectors of both are interleaved.
// Those of three rows would not be.
// CHECK-LABEL: func.func @interleaved
// CHECK: %[[FLAT:.*]] = memref.collapse_shape %arg1 {{.*}} into memref<5x64xf32>
// CHECK: %[[A:.*]] = vector.load %arg0[%c0{{.*}}] : memref<2x5x32xf32>, vector<16xf32>
// CHECK: %[[B:.*]] = vector.load %arg0[%c1{{.*}}] : memref<2x5x32xf32>, vector<16xf32>
// CHECK: %[[AB:.*]] = vector.interleave %[[A]], %[[B]]
// CHECK: vector.store %[[AB]], %[[FLAT]]{{.*}} vector<32xf32>
// CHECK-LABEL: func.func @three_rows
// CHECK-NOT: vector
// CHECK: return
func.func @interleaved(%x: memref<2x5x32xf32>, %y: memref<5x32x2xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i, j)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<2x5x32xf32>) outs(%y : memref<5x32x2xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}
func.func @three_rows(%x: memref<3x5x32xf32>, %y: memref<5x32x3xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i, j)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<3x5x32xf32>) outs(%y : memref<5x32x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}
