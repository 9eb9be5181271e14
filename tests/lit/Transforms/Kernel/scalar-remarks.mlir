// RUN: buddy-opt %s --mlir-disable-threading --remarks-filter=buddy --remark-format=emitRemark \
// RUN:   --pass-pipeline="builtin.module(buddy-set-target{target=x86-64-v4},func.func(buddy-lower-loops,buddy-expand-math))" \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --implicit-check-not="remark:"

#id = affine_map<(i) -> (i)>

// Vectors: nothing is told.
func.func @vectors(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %e = math.exp %a : f32
    linalg.yield %e : f32
  }
  return
}

// Integers, and one element, are no loops over floats.
func.func @integers(%x: memref<?xi32, strided<[2]>>, %y: memref<?xi32>, %z: memref<1xf32, strided<[2]>>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%x : memref<?xi32, strided<[2]>>) outs(%y : memref<?xi32>) {
  ^bb0(%a: i32, %b: i32):
    linalg.yield %a : i32
  }
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]}
    outs(%z : memref<1xf32, strided<[2]>>) {
  ^bb0(%b: f32):
    %s = arith.addf %b, %b : f32
    linalg.yield %s : f32
  }
  return
}

// CHECK: scalar-remarks.mlir:[[@LINE+4]]:{{[0-9]+}}: remark: [Missed] scalar-loop
// CHECK-SAME: Function=inverse
// CHECK-SAME: body="math.acosh, arith.addf", reason="math.acosh has no vector form"
func.func @inverse(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    // CHECK: remark: [Missed] math-call
    // CHECK-SAME: function="math.acosh f32"
    %e = math.acosh %a : f32
    %s = arith.addf %e, %a : f32
    linalg.yield %s : f32
  }
  return
}

// CHECK: remark: [Missed] scalar-loop
// CHECK-SAME: Function=strided
// CHECK-SAME: body=copy, reason="an input is not contiguous along the innermost loop"
func.func @strided(%x: memref<?x?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j * 2)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// A sum along strides.
// CHECK: remark: [Missed] scalar-loop
// CHECK-SAME: Function=sum
// CHECK-SAME: reason="an input is not contiguous along the innermost loop"
func.func @sum(%x: memref<?xf32, strided<[4]>>, %y: memref<f32>) {
  linalg.generic {indexing_maps = [#id, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
    ins(%x : memref<?xf32, strided<[4]>>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  }
  return
}

// Called once, not in a loop.
func.func @once(%x: memref<f32>) {
  %a = memref.load %x[] : memref<f32>
  %e = math.acosh %a : f32
  memref.store %e, %x[] : memref<f32>
  return
}
