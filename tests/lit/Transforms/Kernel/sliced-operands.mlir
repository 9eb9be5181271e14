// RUN: buddy-opt %s --buddy-pipeline="target=x86-64-v3" | FileCheck %s

// A slice is contiguous though the last dimension of what it is a slice of is
// not: vector accesses stay on the slice.
// CHECK-LABEL: llvm.func {{.*}}@f.body(
// CHECK: llvm.load {{.*}} -> vector<8xf32>
func.func @f(%x: memref<33x3xf32, strided<[1, 33]>> {buddy.kind = "input", buddy.name = "x"}, %o: memref<33xf32> {buddy.kind = "output", buddy.name = "o"}) attributes {buddy.entry} {
  %p = memref.subview %x[0,1][33,1][1,1] : memref<33x3xf32, strided<[1,33]>> to memref<33xf32, strided<[1], offset: 33>>
  linalg.exp ins(%p : memref<33xf32, strided<[1], offset: 33>>) outs(%o : memref<33xf32>)
  return
}
