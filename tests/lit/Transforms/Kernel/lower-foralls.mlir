// RUN: buddy-opt %s --buddy-lower-foralls --split-input-file | FileCheck %s

// The work is that of the elements of the buffers it takes parts of; a table
// that is only looked up in does not count.
// CHECK-LABEL: func.func @rows
// CHECK:       %[[SIZE:.*]] = memref.dim %arg0
// CHECK:       %[[X:.*]] = arith.muli %[[SIZE]]
// CHECK:       %[[WORK:.*]] = arith.muli %[[X]], %c16
// CHECK:       %[[THREADS:.*]] = buddy.num_threads %[[WORK]]
// CHECK:       omp.parallel num_threads(%[[THREADS]] : i32) {
// CHECK-NEXT:    %[[OWN:.*]] = memref.alloc() : memref<16xf32>
// CHECK:         omp.loop_nest (%[[I:.*]]) : index
// CHECK:           memref.subview %arg0[%[[I]], 0]
// CHECK-NOT:       memref.alloc
// CHECK:           linalg.copy ins(%{{.*}}) outs(%[[OWN]]
// CHECK-NOT:   scf.forall
func.func @rows(%x: memref<?x16xf32>, %table: memref<1000xf32>, %n: index) {
  scf.forall (%i) in (%n) {
    %row = memref.subview %x[%i, 0] [1, 16] [1, 1]
        : memref<?x16xf32> to memref<16xf32, strided<[1], offset: ?>>
    %own = memref.alloc() : memref<16xf32>
    linalg.copy ins(%row : memref<16xf32, strided<[1], offset: ?>>) outs(%own : memref<16xf32>)
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
        outs(%row : memref<16xf32, strided<[1], offset: ?>>) {
    ^bb0(%out: f32):
      %j = linalg.index 0 : index
      %v = memref.load %table[%j] : memref<1000xf32>
      linalg.yield %v : f32
    }
  }
  return
}

// -----

// A buffer whose size each iteration computes cannot be made before.
// CHECK-LABEL: func.func @own_size
// CHECK:       scf.forall
func.func @own_size(%sizes: memref<8xindex>) {
  scf.forall (%i) in (8) {
    %size = memref.load %sizes[%i] : memref<8xindex>
    %own = memref.alloc(%size) : memref<?xf32>
  }
  return
}

// -----

// What is mapped is for someone else.
// CHECK-LABEL: func.func @mapped
// CHECK:       scf.forall
func.func @mapped(%x: memref<8xf32>, %v: f32) {
  scf.forall (%i) in (8) {
    memref.store %v, %x[%i] : memref<8xf32>
  } {mapping = [#gpu.thread<x>]}
  return
}

// -----

// A region has its threads already, and the size is known in it only.
// CHECK-LABEL: func.func @in_a_region
// CHECK:       omp.parallel {
// CHECK:         scf.forall
// CHECK-NOT:   omp.parallel
func.func @in_a_region(%sizes: memref<8xindex>, %at: index) {
  omp.parallel {
    %size = memref.load %sizes[%at] : memref<8xindex>
    scf.forall (%i) in (8) {
      %own = memref.alloc(%size) : memref<?xf32>
    }
    omp.terminator
  }
  return
}
