// RUN: buddy-opt %s --buddy-emit-entries | FileCheck %s

// What follows a failed precondition does not run; after another check it does.
// CHECK-LABEL: func.func private @f.body
// CHECK: call @buddy.check(
// CHECK: cf.cond_br %{{.*}}, ^bb[[GO:[0-9]+]], ^bb[[STOP:[0-9]+]]
// CHECK: ^bb[[GO]]:
// CHECK: memref.store
// CHECK-NOT: cf.cond_br
// CHECK: return
// CHECK: ^bb[[STOP]]:
// CHECK-NEXT: return
func.func @f(%n: i64 {buddy.kind = "size", buddy.name = "n"}, %o: memref<4xf32> {buddy.kind = "output", buddy.name = "o"})
    attributes {buddy.entry} {
  %four = arith.constant 4 : i64
  %z = arith.constant 0.0 : f32
  %fits = arith.cmpi slt, %n, %four : i64
  buddy.check %fits, "n is too large" {buddy.precondition}
  %i = arith.index_cast %n : i64 to index
  memref.store %z, %o[%i] : memref<4xf32>
  buddy.check %fits, "checked again"
  return
}
