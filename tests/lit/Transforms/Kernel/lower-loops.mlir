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
// CHECK: vector.load %{{.*}}[%[[I]], %[[J]]] : memref<?x?xf32, strided<[?, 1]>>, vector<16xf32>
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
func.func @contiguous(%x: memref<?x?xf32, strided<[?, 1]>>, %y: memref<?x?xf32, strided<[?, 1]>>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<?x?xf32, strided<[?, 1]>>) outs(%y : memref<?x?xf32, strided<[?, 1]>>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  }
  return
}

// A row's factor is one value for all lanes; an index differs from lane to lane.
// CHECK-LABEL: func.func @broadcast_and_index
// CHECK: %[[S:.*]] = memref.load %{{.*}}[%[[I:.*]]] : memref<?xf32>
// CHECK: vector.step : vector<16xindex>
// CHECK: vector.broadcast %[[S]] : f32 to vector<16xf32>
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

// A transposed operand: square tiles, as many vectors as each has elements read
// along the operand's rows, transposed, and used one after the other beside the
// other operand. Parts of tiles are scalars.
// CHECK-LABEL: func.func @transposed
// CHECK: omp.loop_nest (%[[I:.*]]) : index = {{.*}} step (%c16
// CHECK: scf.for %[[J:.*]] =
// CHECK-COUNT-16: vector.load %arg0[%{{.*}}, %[[I]]] : memref<?x?xf32>, vector<16xf32>
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store %{{.*}}, %arg2[%{{.*}}, %[[J]]] : memref<?x?xf32>, vector<16xf32>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: memref.load %arg0
// CHECK: memref.store
// RVV-LABEL: func.func @transposed
// RVV-NOT: vector.shuffle
// RVV: return
func.func @transposed(%x: memref<?x?xf32>, %z: memref<?x?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %z : memref<?x?xf32>, memref<?x?xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %c: f32, %b: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  }
  return
}

// The same, where the memory's order is another than the dimensions'; and an
// output in another order than the loops: the loop it is contiguous along goes
// inside, and nothing is transposed.
// CHECK-LABEL: func.func @column_major
// CHECK: memref.reinterpret_cast %arg0
// CHECK: vector.load %reinterpret_cast
// CHECK: vector.shuffle
func.func @column_major(%x: memref<64x64xf32, strided<[1, 64]>>, %y: memref<64x64xf32>) {
  memref.copy %x, %y : memref<64x64xf32, strided<[1, 64]>> to memref<64x64xf32>
  return
}

// CHECK-LABEL: func.func @both_column_major
// CHECK: vector.load
// CHECK-NOT: vector.shuffle
// CHECK: vector.store
// CHECK: return
func.func @both_column_major(%x: memref<64x64xf32, strided<[1, 64]>>, %y: memref<64x64xf32, strided<[1, 64]>>) {
  memref.copy %x, %y : memref<64x64xf32, strided<[1, 64]>> to memref<64x64xf32, strided<[1, 64]>>
  return
}

// Scalars: rows too short for a tile, a diagonal, complex numbers, a function without a
// vector form, and a reduction that is none of the known ones.
// CHECK-LABEL: func.func @short_rows
// CHECK-NOT: vector
// CHECK: return
func.func @short_rows(%x: memref<3x64xf32>, %y: memref<64x3xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<3x64xf32>) outs(%y : memref<64x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// CHECK-LABEL: func.func @diagonal
// CHECK-NOT: vector
// CHECK: return
func.func @diagonal(%x: memref<?x?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// A rest of known length in narrower vectors, where a mask will not do.
// CHECK-LABEL: func.func @known_rest
// CHECK: vector.store {{.*}} vector<16xi32>
// CHECK: vector.store {{.*}} vector<8xi32>
// CHECK-NOT: vector<4xi32>
// CHECK: memref.store
func.func @known_rest(%x: memref<8x59xi32, strided<[64, 1]>>, %y: memref<8x59xi32, strided<[64, 1]>>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<8x59xi32, strided<[64, 1]>>) outs(%y : memref<8x59xi32, strided<[64, 1]>>) {
  ^bb0(%a: i32, %b: i32):
    %m = arith.divsi %a, %a : i32
    linalg.yield %m : i32
  }
  return
}

// CHECK-LABEL: func.func @complex_numbers
// CHECK-NOT: vector
// CHECK: return
func.func @complex_numbers(%x: memref<?xcomplex<f32>>, %y: memref<?xcomplex<f32>>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?xcomplex<f32>>) outs(%y : memref<?xcomplex<f32>>) {
  ^bb0(%a: complex<f32>, %b: complex<f32>):
    linalg.yield %a : complex<f32>
  }
  return
}

// CHECK-LABEL: func.func @bits
// CHECK: vector.load {{.*}} vector<64xi1>
// CHECK: vector.store {{.*}} vector<64xi1>
func.func @bits(%x: memref<?xi1>, %y: memref<?xi1>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?xi1>) outs(%y : memref<?xi1>) {
  ^bb0(%a: i1, %b: i1):
    linalg.yield %a : i1
  }
  return
}

// CHECK-LABEL: func.func @inverse
// CHECK-NOT: vector
// CHECK: return
func.func @inverse(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = math.acosh %a : f32
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

// Rows by their numbers: the number is read and clamped once a row, outside the
// loop over its elements, which are adjacent.
// CHECK-LABEL: func.func @rows
// CHECK: omp.loop_nest (%[[I:.*]]) : index
// CHECK: %[[N:.*]] = memref.load %{{.*}}[%[[I]]] : memref<?xi64>
// CHECK: %[[AT:.*]] = arith.maxsi
// CHECK-NOT: arith.index_cast
// CHECK: scf.for %[[J:.*]] =
// CHECK-NEXT: vector.load %{{.*}}[%[[AT]], %[[J]]] : memref<?x64xf32>, vector<16xf32>
// CHECK-NEXT: vector.store
// CHECK: scf.for
// CHECK-NEXT: memref.load %{{.*}}[%[[AT]],
func.func @rows(%x: memref<?x64xf32>, %n: memref<?xi64>, %y: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%n : memref<?xi64>) outs(%y : memref<?x64xf32>) {
  ^bb0(%a: i64, %b: f32):
    %i = arith.index_cast %a : i64 to index
    %p = arith.maxsi %i, %c0 : index
    %j = linalg.index 1 : index
    %v = memref.load %x[%p, %j] : memref<?x64xf32>
    linalg.yield %v : f32
  }
  return
}

// A row of unknown length may have no elements, and then nothing can be read.
// CHECK-LABEL: func.func @repeated_element
// CHECK: omp.loop_nest
// CHECK-NOT: memref.load %arg0
// CHECK: scf.for
// CHECK: memref.load %arg0
func.func @repeated_element(%x: memref<?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} outs(%y : memref<?x?xf32>) {
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %v = memref.load %x[%i] : memref<?xf32>
    linalg.yield %v : f32
  }
  return
}

// Numbers that lie in memory: a gather, of what is small by 32-bit distances.
// Rows of another stride are gathered from memory as one dimension.
// CHECK-LABEL: func.func @elements
// CHECK: %[[D:.*]] = arith.index_cast %{{.*}} : vector<8xindex> to vector<8xi32>
// CHECK: vector.gather %arg0[%{{.*}}, %{{.*}}] [%[[D]]]
// CHECK: memref.extract_strided_metadata %arg1
// CHECK: vector.gather %reinterpret_cast[%{{.*}}] [%{{.*}}], {{.*}} vector<8xindex>
// CHECK: arith.addf %{{.*}} : vector<8xf32>
// RVV-LABEL: func.func @elements
// RVV: vector.gather {{.*}} into vector<[4]xf32>
func.func @elements(%x: memref<4x64xf32>, %z: memref<?x?xf32, strided<[?, ?]>>, %n: memref<4x?xi64>, %y: memref<4x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%n : memref<4x?xi64>) outs(%y : memref<4x?xf32>) {
  ^bb0(%a: i64, %b: f32):
    %i = linalg.index 0 : index
    %p = arith.index_cast %a : i64 to index
    %v = memref.load %x[%i, %p] : memref<4x64xf32>
    %w = memref.load %z[%i, %p] : memref<?x?xf32, strided<[?, ?]>>
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32
  }
  return
}

// Numbers that are computed are adjacent as a rule: it is asked at run time.
// CHECK-LABEL: func.func @clamped
// CHECK: %[[P:.*]] = arith.maxsi {{.*}} vector<16xindex>
// CHECK: %[[FIRST:.*]] = vector.extract %[[P]][0]
// CHECK: %[[NE:.*]] = arith.cmpi ne, %[[P]]
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[NE]]
// CHECK: scf.if %[[ANY]] -> (vector<16xf32>)
// CHECK: vector.gather
// CHECK: else
// CHECK: vector.load %{{.*}}[%{{.*}}] : memref<?xf32>, vector<16xf32>
func.func @clamped(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c1 = arith.constant 1 : index
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} outs(%y : memref<?xf32>) {
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %p = arith.maxsi %i, %c1 : index
    %v = memref.load %x[%p] : memref<?xf32>
    linalg.yield %v : f32
  }
  return
}

// From the end on: a vector whose order is turned round.
// CHECK-LABEL: func.func @backward
// CHECK: vector.load
// CHECK: vector.shuffle %{{.*}} [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
// CHECK-NOT: vector.gather
func.func @backward(%x: memref<64xf32>, %y: memref<64xf32>) {
  %c63 = arith.constant 63 : index
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} outs(%y : memref<64xf32>) {
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %p = arith.subi %c63, %i : index
    %v = memref.load %x[%p] : memref<64xf32>
    linalg.yield %v : f32
  }
  return
}

// Scalars: complex numbers have no vectors in memory.
// CHECK-LABEL: func.func @complex_by_number
// CHECK-NOT: vector
// CHECK: return
func.func @complex_by_number(%x: memref<?xcomplex<f32>>, %n: memref<?xi64>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%n : memref<?xi64>) outs(%y : memref<?xf32>) {
  ^bb0(%a: i64, %b: f32):
    %p = arith.index_cast %a : i64 to index
    %v = memref.load %x[%p] : memref<?xcomplex<f32>>
    %e = complex.re %v : complex<f32>
    linalg.yield %e : f32
  }
  return
}

// In a sequential loop small work opens no parallel region each time; work of
// unknown size does.
// CHECK-LABEL: func.func @small_in_loop
// CHECK: scf.for
// CHECK-NOT: omp.parallel
// CHECK: vector.store
// CHECK: omp.parallel
func.func @small_in_loop(%x: memref<64xf32>, %z: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  scf.for %i = %c0 to %c9 step %c1 {
    linalg.exp ins(%x : memref<64xf32>) outs(%x : memref<64xf32>)
    linalg.exp ins(%z : memref<?xf32>) outs(%z : memref<?xf32>)
  }
  return
}

// Rows without a gap between them are one loop, and so are sums over both of an
// image's dimensions.
// CHECK-LABEL: func.func @one_loop
// CHECK: memref.collapse_shape %arg0 {{\[\[}}0], [1, 2]]
// CHECK: omp.loop_nest (%{{.*}}) : index
// CHECK: vector.load {{.*}} : memref<5x21xf32>, vector<16xf32>
// CHECK: vector.reduction
// CHECK: memref.collapse_shape %arg2 {{\[\[}}0, 1]]
// CHECK: omp.loop_nest (%{{.*}}) : index
// CHECK: vector.load {{.*}} : memref<?xf32>, vector<16xf32>
func.func @one_loop(%x: memref<5x7x3xf32>, %s: memref<5xf32>, %y: memref<?x3xf32>, %z: memref<?x3xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i)>],
      iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : memref<5x7x3xf32>) outs(%s : memref<5xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%y : memref<?x3xf32>) outs(%z : memref<?x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.mulf %a, %a : f32
    linalg.yield %t : f32
  }
  return
}

// Not where rows have gaps, an operand is the same for all rows, the body asks
// for the row's number, or another operand is read in windows.
// CHECK-LABEL: func.func @two_loops
// CHECK-NOT: memref.collapse_shape
// CHECK: return
func.func @two_loops(%x: memref<5x3xf32, strided<[4, 1]>>, %s: memref<3xf32>, %y: memref<5x3xf32>, %w: memref<5x3x7xf32>, %v: memref<5x3x5xf32>) {
  memref.copy %x, %y : memref<5x3xf32, strided<[4, 1]>> to memref<5x3xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%s : memref<3xf32>) outs(%y : memref<5x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} outs(%y : memref<5x3xf32>) {
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    linalg.yield %f : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i, j, k + l)>, affine_map<(i, j, k, l) -> (l)>, affine_map<(i, j, k, l) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %s : memref<5x3x7xf32>, memref<3xf32>) outs(%v : memref<5x3x5xf32>) {
  ^bb0(%a: f32, %c: f32, %b: f32):
    %m = arith.mulf %a, %c : f32
    %t = arith.addf %m, %b : f32
    linalg.yield %t : f32
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
// CHECK-LABEL: func.func @interleaved
// CHECK: memref.collapse_shape {{.*}} into memref<2x160xf32>
// CHECK: %[[FLAT:.*]] = memref.collapse_shape {{.*}} memref<160x2xf32> into memref<320xf32>
// CHECK: %[[A:.*]] = vector.load {{.*}} : memref<2x160xf32>, vector<16xf32>
// CHECK: %[[B:.*]] = vector.load {{.*}} : memref<2x160xf32>, vector<16xf32>
// CHECK: %[[AB:.*]] = vector.interleave %[[A]], %[[B]]
// CHECK: vector.store %[[AB]], %[[FLAT]]{{.*}} vector<32xf32>
func.func @interleaved(%x: memref<2x5x32xf32>, %y: memref<5x32x2xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i, j)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<2x5x32xf32>) outs(%y : memref<5x32x2xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// Those of three rows are not.
// CHECK-LABEL: func.func @three_rows
// CHECK-NOT: vector.interleave
// CHECK: return
func.func @three_rows(%x: memref<3x5x32xf32>, %y: memref<5x32x3xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i, j)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<3x5x32xf32>) outs(%y : memref<5x32x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}
