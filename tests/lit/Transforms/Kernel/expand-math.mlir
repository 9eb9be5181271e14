// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-expand-math))" | FileCheck %s

// A polynomial near zero, the distance to one beyond.
// CHECK-LABEL: func.func @tanh
// CHECK-NOT:   math.tanh
// CHECK:       arith.divf
// CHECK:       %[[FAR:.*]] = arith.cmpf ogt, %{{.*}} : vector<8xf32>
// CHECK:       %[[SIGNED:.*]] = math.copysign
// CHECK:       arith.select %[[FAR]], %[[SIGNED]], %{{.*}} : vector<8xi1>, vector<8xf32>
func.func @tanh(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.tanh %x : vector<8xf32>
  return %y : vector<8xf32>
}

// No function is called, and nothing but rounding is done in f16.
// CHECK-LABEL: func.func @erf
// CHECK:       arith.extf %{{.*}} : f16 to f32
// CHECK-NOT:   math.{{erf|exp}}
// CHECK:       math.copysign %{{.*}} : f32
// CHECK:       arith.truncf %{{.*}} : f32 to f16
func.func @erf(%x: f16) -> f16 {
  %y = math.erf %x : f16
  return %y : f16
}

// Vectors of unknown length too.
// CHECK-LABEL: func.func @scalable
// CHECK-NOT:   math.erf
// CHECK:       arith.select %{{.*}} : vector<[4]xi1>, vector<[4]xf32>
func.func @scalable(%x: vector<[4]xf32>) -> vector<[4]xf32> {
  %y = math.erf %x : vector<[4]xf32>
  return %y : vector<[4]xf32>
}

// f64, sine and powers are the C library's.
// CHECK-LABEL: func.func @calls
// CHECK:       math.tanh %{{.*}} : f64
// CHECK:       math.sin
// CHECK:       math.powf
func.func @calls(%x: f64, %y: f32) -> (f64, f32, f32) {
  %a = math.tanh %x : f64
  %b = math.sin %y : f32
  %c = math.powf %y, %b : f32
  return %a, %b, %c : f64, f32, f32
}
