// RUN: buddy-opt --buddy-expand-bf16 --split-input-file --verify-diagnostics %s | FileCheck %s

// Widening is a shift; the rest of the code moves integers.
// CHECK-LABEL: func.func @widen(
// CHECK-SAME:    %[[M:.*]]: memref<?xi16>, %[[MASK:.*]]: vector<4xi1>
// CHECK-NOT:   bf16
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0> : vector<4xi16>
// CHECK:         %[[V:.*]] = vector.maskedload %[[M]][%{{.*}}], %[[MASK]], %[[ZERO]]
// CHECK-SAME:      memref<?xi16>, vector<4xi1>, vector<4xi16> into vector<4xi16>
// CHECK:         %[[W:.*]] = arith.extui %[[V]] : vector<4xi16> to vector<4xi32>
// CHECK:         %[[S:.*]] = arith.shli %[[W]], %{{.*}} : vector<4xi32>
// CHECK:         arith.bitcast %[[S]] : vector<4xi32> to vector<4xf32>
func.func @widen(%m: memref<?xbf16>, %mask: vector<4xi1>, %i: index) -> vector<4xf32> {
  %zero = arith.constant dense<0.0> : vector<4xbf16>
  %v = vector.maskedload %m[%i], %mask, %zero
    : memref<?xbf16>, vector<4xi1>, vector<4xbf16> into vector<4xbf16>
  %w = arith.extf %v : vector<4xbf16> to vector<4xf32>
  return %w : vector<4xf32>
}

// -----

// A dot product of pairs is an instruction and keeps its operands' type.
// CHECK-LABEL: func.func @dot(
// CHECK-SAME:    %[[M:.*]]: memref<?xi16>
// CHECK:         %[[BITS:.*]] = vector.load %[[M]]{{.*}} vector<8xi16>
// CHECK-DAG:     %[[A:.*]] = llvm.bitcast %[[BITS]] : vector<8xi16> to vector<8xbf16>
// CHECK:         x86vector.avx512.dot %{{.*}}, %[[A]], %{{.*}} : vector<8xbf16> -> vector<4xf32>
func.func @dot(%m: memref<?xbf16>, %sum: vector<4xf32>, %i: index) -> vector<4xf32> {
  %v = vector.load %m[%i] : memref<?xbf16>, vector<8xbf16>
  %r = x86vector.avx512.dot %sum, %v, %v : vector<8xbf16> -> vector<4xf32>
  return %r : vector<4xf32>
}

// -----

// A constant keeps its bits; f64 goes by f32.
// CHECK-LABEL: func.func @constants(
// CHECK-SAME:    %[[X:.*]]: f64, %{{.*}}: i1) -> (i16, f64)
// CHECK-NOT:   bf16
// CHECK-DAG:     arith.constant -16320 : i16
// CHECK:         arith.truncf %[[X]] : f64 to f32
// CHECK:         arith.trunci {{.*}} : i32 to i16
// CHECK:         arith.select {{.*}} : i16
// CHECK:         arith.extf {{.*}} : f32 to f64
func.func @constants(%x: f64, %c: i1) -> (bf16, f64) {
  %two = arith.constant -3.0 : bf16
  %y = arith.truncf %x : f64 to bf16
  %z = arith.select %c, %y, %two : bf16
  %w = arith.extf %z : bf16 to f64
  return %z, %w : bf16, f64
}

// -----

// Vectors of unknown length too.
// CHECK-LABEL: func.func @narrow(
// CHECK-SAME:    vector<[8]xf32>, %{{.*}}: memref<?xi16, strided<[1], offset: ?>>
// CHECK-NOT:   bf16
// CHECK:         vector.store %{{.*}}, %{{.*}}[%{{.*}}] : memref<?xi16, strided<[1], offset: ?>>, vector<[8]xi16>
func.func @narrow(%v: vector<[8]xf32>, %m: memref<?xbf16, strided<[1], offset: ?>>, %i: index) {
  %n = arith.truncf %v : vector<[8]xf32> to vector<[8]xbf16>
  vector.store %n, %m[%i] : memref<?xbf16, strided<[1], offset: ?>>, vector<[8]xbf16>
  return
}

// -----

func.func @arithmetic(%a: bf16, %b: bf16) -> bf16 {
  // expected-error @below {{arithmetic on bf16 must be in f32 by now}}
  %c = arith.addf %a, %b : bf16
  return %c : bf16
}
