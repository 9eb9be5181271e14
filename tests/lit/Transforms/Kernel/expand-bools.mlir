// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-expand-bools))" | FileCheck %s

// Vectors of bits are vectors of bytes in memory.
// CHECK-LABEL: func.func @bits
// CHECK: %[[X:.*]] = builtin.unrealized_conversion_cast %arg0 : memref<?xi1> to memref<?xi8>
// CHECK: %[[A:.*]] = vector.load %[[X]][%{{.*}}] : memref<?xi8>, vector<16xi8>
// CHECK: %[[B:.*]] = arith.trunci %[[A]] : vector<16xi8> to vector<16xi1>
// CHECK: vector.gather %{{.*}} : memref<?xi8>, {{.*}} into vector<16xi8>
// CHECK: %[[C:.*]] = arith.andi %[[B]], %{{.*}} : vector<16xi1>
// CHECK: %[[D:.*]] = arith.extui %[[C]] : vector<16xi1> to vector<16xi8>
// CHECK: vector.store %[[D]], %{{.*}} : memref<?xi8, strided<[1], offset: ?>>, vector<16xi8>
func.func @bits(%x: memref<?xi1>, %y: memref<?xi1, strided<[1], offset: ?>>, %i: index, %n: vector<16xindex>, %m: vector<16xi1>) {
  %a = vector.load %x[%i] : memref<?xi1>, vector<16xi1>
  %b = vector.gather %x[%i] [%n], %m, %m : memref<?xi1>, vector<16xindex>, vector<16xi1>, vector<16xi1> into vector<16xi1>
  %c = arith.andi %a, %b : vector<16xi1>
  vector.store %c, %y[%i] : memref<?xi1, strided<[1], offset: ?>>, vector<16xi1>
  return
}

// Single bits, and other elements, stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: unrealized_conversion_cast
// CHECK: memref.load %arg0[%{{.*}}] : memref<?xi1>
// CHECK: vector.load %arg1[%{{.*}}] : memref<?xi8>, vector<16xi8>
func.func @others(%x: memref<?xi1>, %y: memref<?xi8>, %i: index) -> (i1, vector<16xi8>) {
  %a = memref.load %x[%i] : memref<?xi1>
  %b = vector.load %y[%i] : memref<?xi8>, vector<16xi8>
  return %a, %b : i1, vector<16xi8>
}
