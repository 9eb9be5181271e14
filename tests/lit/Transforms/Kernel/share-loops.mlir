// RUN: buddy-opt %s --buddy-share-loops | FileCheck %s

// Each thread's part of the six iterations, then their two indices.
// CHECK-LABEL: func @nest
// CHECK:       omp.parallel
// CHECK-DAG:   %[[ID:.+]] = llvm.call @omp_get_thread_num() : () -> i32
// CHECK-DAG:   %[[N:.+]] = llvm.call @omp_get_num_threads() : () -> i32
// CHECK-DAG:   %[[THREAD:.+]] = arith.index_cast %[[ID]]
// CHECK-DAG:   %[[THREADS:.+]] = arith.index_cast %[[N]]
// CHECK-DAG:   %[[SHARE:.+]] = arith.divui %{{.+}}, %[[THREADS]]
// CHECK-DAG:   %[[REST:.+]] = arith.remui %{{.+}}, %[[THREADS]]
// CHECK:       scf.for %[[I:.+]] = %{{.+}} to %{{.+}} step %{{.+}} {
// CHECK:         arith.remui %[[I]]
// CHECK:         arith.divui %[[I]]
// CHECK:         memref.store
// CHECK-NOT:   omp.wsloop
// CHECK-NOT:   omp.barrier
// CHECK:       omp.terminator
func.func @nest(%m: memref<?x?xf32>, %rows: index, %columns: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  omp.parallel {
    omp.wsloop nowait {
      omp.loop_nest (%i, %j) : index = (%c0, %c0) to (%rows, %columns) step (%c1, %c8) collapse(2) {
        memref.store %zero, %m[%i, %j] : memref<?x?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// Without `nowait` the threads meet at its end.
// CHECK-LABEL: func @waits
// CHECK:       scf.for
// CHECK:       omp.barrier
// CHECK:       omp.terminator
func.func @waits(%m: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  omp.parallel {
    omp.wsloop {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        memref.store %zero, %m[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// A schedule of its own, and bounds that belong to the range, are OpenMP's.
// CHECK-LABEL: func @others
// CHECK-COUNT-2: omp.wsloop
func.func @others(%m: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  omp.parallel {
    omp.wsloop schedule(dynamic) {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        memref.store %zero, %m[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.wsloop {
      omp.loop_nest (%i) : index = (%c0) to (%n) inclusive step (%c1) {
        memref.store %zero, %m[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}
