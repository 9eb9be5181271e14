// RUN: buddy-opt --buddy-plan-memory --canonicalize --cse --split-input-file %s | FileCheck %s

func.func private @use(memref<?xf32>)
func.func private @use_const(memref<1024xf32>)

// Buffers that are never alive together share space; sizes come from arguments.
// CHECK-LABEL: func.func @reuse(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<?xf32>, %[[WS:[a-z0-9]+]]: memref<?xi8> {buddy.workspace})
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[N:.*]] = memref.dim %[[X]], %[[C0]]
// CHECK:         %[[BYTES:.*]] = arith.muli %[[N]], %[[C4]]
// CHECK:         %[[UP:.*]] = arith.addi %[[BYTES]], %c63
// CHECK:         %[[SIZE:.*]] = arith.andi %[[UP]], %c-64
// CHECK:         %[[A:.*]] = memref.view %[[WS]][%[[C0]]][%[[N]]]
// CHECK:         %[[B:.*]] = memref.view %[[WS]][%[[SIZE]]][%[[N]]]
// CHECK:         memref.copy %[[A]], %[[B]]
// CHECK:         memref.copy %[[B]], %[[A]]
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     memref.dealloc
// CHECK-LABEL: func.func private @reuse.workspace_size(
// CHECK-SAME:    %[[N:.*]]: index) -> index
// CHECK:         %[[SIZE:.*]] = arith.andi
// CHECK:         %[[TWO:.*]] = arith.addi %[[SIZE]], %[[SIZE]]
// CHECK:         return %[[TWO]]
func.func @reuse(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %a = memref.alloc(%n) : memref<?xf32>
  call @use(%a) : (memref<?xf32>) -> ()
  %b = memref.alloc(%n) : memref<?xf32>
  memref.copy %a, %b : memref<?xf32> to memref<?xf32>
  call @use(%b) : (memref<?xf32>) -> ()
  %c = memref.alloc(%n) : memref<?xf32>
  memref.copy %b, %c : memref<?xf32> to memref<?xf32>
  call @use(%c) : (memref<?xf32>) -> ()
  memref.dealloc %a : memref<?xf32>
  memref.dealloc %b : memref<?xf32>
  memref.dealloc %c : memref<?xf32>
  return
}

// -----

func.func private @use(memref<?xf32>)

// A view keeps its buffer alive, through a branch too.
// CHECK-LABEL: func.func @views(
// CHECK-SAME:    %[[WS:[a-z0-9]+]]: memref<?xi8> {buddy.workspace}
// CHECK:         memref.view %[[WS]][%c0]
// CHECK:         memref.view %[[WS]][%c4096]
// CHECK-LABEL: func.func private @views.workspace_size(
// CHECK:         return %c8192
func.func @views(%cond: i1, %x: memref<?xf32>) {
  %a = memref.alloc() : memref<1024xf32>
  %cast = memref.cast %a : memref<1024xf32> to memref<?xf32>
  %v = scf.if %cond -> memref<?xf32> {
    scf.yield %cast : memref<?xf32>
  } else {
    scf.yield %x : memref<?xf32>
  }
  %b = memref.alloc() : memref<1024xf32>
  %bcast = memref.cast %b : memref<1024xf32> to memref<?xf32>
  memref.copy %v, %bcast : memref<?xf32> to memref<?xf32>
  call @use(%bcast) : (memref<?xf32>) -> ()
  return
}

// -----

func.func private @use(memref<?xf32>)

// The caller's workspace holds the callee's, which lies over dead buffers.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME:    memref<?xf32>, %{{.*}}: i64, %{{.*}}: memref<?xi8> {buddy.workspace})
func.func private @layer(%x: memref<?xf32>, %n: i64) {
  %i = arith.index_cast %n : i64 to index
  %a = memref.alloc(%i) : memref<?xf32>
  memref.copy %x, %a : memref<?xf32> to memref<?xf32>
  call @use(%a) : (memref<?xf32>) -> ()
  return
}
// CHECK-LABEL: func.func private @layer.workspace_size(
// CHECK-SAME:    %{{.*}}: index, %{{.*}}: index) -> index

// CHECK-LABEL: func.func @caller(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<?xf32>, %[[N:[a-z0-9]+]]: i64, %[[WS:[a-z0-9]+]]: memref<?xi8>
// CHECK:         %[[D:.*]] = memref.dim %[[X]], %c0
// CHECK:         %[[I:.*]] = arith.index_cast %[[N]] : i64 to index
// CHECK:         %[[BYTES:.*]] = call @layer.workspace_size(%[[D]], %[[I]])
// CHECK:         %[[PART:.*]] = memref.view %[[WS]][%c0][%[[BYTES]]]
// CHECK:         call @layer(%[[X]], %[[N]], %[[PART]])
// CHECK:         call @layer(%[[X]], %[[N]], %[[PART]])
// CHECK-LABEL: func.func private @caller.workspace_size(
// CHECK:         call @layer.workspace_size
// CHECK-NOT:     call @layer.workspace_size
// CHECK:         return
func.func @caller(%x: memref<?xf32>, %n: i64) {
  call @layer(%x, %n) : (memref<?xf32>, i64) -> ()
  call @layer(%x, %n) : (memref<?xf32>, i64) -> ()
  return
}

// -----

func.func private @use(memref<?xf32>)

// In a loop: planned once, by the bound where the size varies; a small buffer
// of constant size goes to the stack, outside of the loop.
// CHECK-LABEL: func.func @loop(
// CHECK:         memref.alloca() : memref<8xf32>
// CHECK:         scf.for
// CHECK:           memref.view %{{.*}}[%c0]
// CHECK-NOT:     memref.alloc(
// CHECK-LABEL: func.func private @loop.workspace_size(
// CHECK:         return %c1024
func.func @loop(%n: index, %x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c256 = arith.constant 256 : index
  scf.for %i = %c0 to %n step %c256 {
    %left = arith.subi %n, %i : index
    %size = arith.minsi %left, %c256 : index
    %a = memref.alloc(%size) : memref<?xf32>
    %s = memref.alloc() : memref<8xf32>
    %d = memref.cast %s : memref<8xf32> to memref<?xf32>
    memref.copy %x, %a : memref<?xf32> to memref<?xf32>
    func.call @use(%a) : (memref<?xf32>) -> ()
    func.call @use(%d) : (memref<?xf32>) -> ()
    memref.dealloc %a : memref<?xf32>
  }
  return
}

// -----

func.func private @use(memref<?xf32>)

// Threads share no workspace: a constant size is on each thread's stack, outside
// of loops, another is on the heap and freed, also the workspace of a call.
// CHECK-LABEL: func.func @parallel(
// CHECK-NOT:     buddy.workspace
// CHECK:         omp.parallel
// CHECK:           memref.alloca() : memref<256xf32>
// CHECK:           omp.loop_nest
// CHECK:             %[[HEAP:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
// CHECK:             %[[BYTES:.*]] = func.call @layer.workspace_size
// CHECK:             %[[WS:.*]] = memref.alloc(%[[BYTES]]) {alignment = 64 : i64} : memref<?xi8>
// CHECK:             func.call @layer(%{{.*}}, %[[WS]])
// CHECK:             memref.dealloc %[[WS]]
// CHECK:             memref.dealloc %[[HEAP]]
// CHECK:             omp.yield
func.func @parallel(%n: index, %x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  omp.parallel {
    omp.wsloop {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %a = memref.alloc(%n) : memref<?xf32>
        %s = memref.alloc() : memref<256xf32>
        %d = memref.cast %s : memref<256xf32> to memref<?xf32>
        func.call @layer(%a) : (memref<?xf32>) -> ()
        func.call @use(%d) : (memref<?xf32>) -> ()
        omp.yield
      }
    }
    omp.terminator
  }
  return
}
func.func private @layer(%x: memref<?xf32>) {
  %a = memref.alloc() : memref<1024xf32>
  %d = memref.cast %a : memref<1024xf32> to memref<?xf32>
  call @use(%d) : (memref<?xf32>) -> ()
  return
}

// -----

func.func private @use(memref<?xf32>)

// What the data decides is on the heap and freed at the end of its block.
// CHECK-LABEL: func.func @data_dependent(
// CHECK-NOT:     buddy.workspace
// CHECK:         %[[A:.*]] = memref.alloc(
// CHECK:         call @use(%[[A]])
// CHECK-NEXT:    memref.dealloc %[[A]]
// CHECK-NEXT:    return
func.func @data_dependent(%x: memref<index>) {
  %n = memref.load %x[] : memref<index>
  %a = memref.alloc(%n) : memref<?xf32>
  call @use(%a) : (memref<?xf32>) -> ()
  return
}

// -----

func.func private @use(memref<?xf32>)

// A division that a branch guards is not computed before the branch.
// CHECK-LABEL: func.func @guarded(
// CHECK-NOT:     arith.divsi
// CHECK:         scf.if
// CHECK:           arith.divsi
// CHECK:           memref.alloc(
// CHECK:           memref.dealloc
func.func @guarded(%n: index, %d: index) {
  %c0 = arith.constant 0 : index
  %ok = arith.cmpi sgt, %d, %c0 : index
  scf.if %ok {
    %q = arith.divsi %n, %d : index
    %a = memref.alloc(%q) : memref<?xf32>
    func.call @use(%a) : (memref<?xf32>) -> ()
  }
  return
}
