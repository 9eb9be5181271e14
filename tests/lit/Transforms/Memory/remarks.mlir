// RUN: buddy-opt %s --mlir-disable-threading --remarks-filter=buddy --remark-format=emitRemark \
// RUN:   --buddy-verify-no-copies --buddy-plan-memory -o /dev/null 2>&1 | FileCheck %s

func.func private @use(memref<?xf32>)
func.func private @use_fixed(memref<8xf32>)

// What is copied because its old value is needed.
// CHECK: remarks.mlir:[[@LINE+36]]:3: remark: [Analysis] copy
// CHECK-SAME: Function=entry | argument=cache, kind=state
// CHECK: remark: [Passed] verified {{.*}} Function=entry | arguments=1

// Callees are planned first. Sizes are those of the arguments' symbols; an
// unknown one is taken for 128.
// CHECK: remark: [Analysis] arena {{.*}} Function=layer | end={{[0-9]+}}, estimate=1024
// CHECK: remark: [Analysis] buffer
// CHECK-SAME: bytes="8 * arg0.0", callee=, end={{[0-9]+}}, estimate=1024, offset=0, slot=0,
// CHECK-SAME: type=memref<?x2xf32>

// CHECK: remark: [Analysis] stack {{.*}} Function=entry | bytes=32, threads=false
// CHECK: remark: [Missed] heap
// CHECK-SAME: reason="the arguments do not determine its size", type=memref<?xf32>
// CHECK: remark: [Analysis] arena {{.*}} Function=entry | end={{[0-9]+}}, estimate=2560
// CHECK: remark: [Analysis] buffer
// CHECK-SAME: bytes="12 * rows"
// CHECK-SAME: estimate=1536
// CHECK: remark: [Analysis] buffer
// CHECK-SAME: bytes="(workspace of @layer)", callee=layer
// CHECK-SAME: estimate=1024
func.func private @layer(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %a = memref.alloc(%n) : memref<?x2xf32>
  %f = memref.collapse_shape %a [[0, 1]] : memref<?x2xf32> into memref<?xf32>
  call @use(%f) : (memref<?xf32>) -> ()
  return
}

func.func @entry(%x: memref<?x3xf32> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["rows", "3"]},
    %s: memref<?x3xf32> {buddy.kind = "state", buddy.name = "cache", buddy.shape = ["rows", "3"]},
    %count: memref<index>) attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?x3xf32>
  %old = memref.alloc(%n) : memref<?x3xf32>
  memref.copy %s, %old : memref<?x3xf32> to memref<?x3xf32>
  memref.copy %x, %s : memref<?x3xf32> to memref<?x3xf32>
  memref.copy %old, %x : memref<?x3xf32> to memref<?x3xf32>
  %small = memref.alloc() : memref<8xf32>
  call @use_fixed(%small) : (memref<8xf32>) -> ()
  %m = memref.load %count[] : memref<index>
  %unknown = memref.alloc(%m) : memref<?xf32>
  call @use(%unknown) : (memref<?xf32>) -> ()
  %flat = memref.collapse_shape %old [[0, 1]] : memref<?x3xf32> into memref<?xf32>
  call @layer(%flat) : (memref<?xf32>) -> ()
  return
}
