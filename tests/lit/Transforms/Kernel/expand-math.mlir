// RUN: buddy-opt %s --pass-pipeline="builtin.module(func.func(buddy-expand-math))" | FileCheck %s

// A polynomial near zero, the distance to one beyond.
// CHECK-LABEL: func.func @tanh
// CHECK-NOT:   math.tanh
// CHECK:       arith.divf
// CHECK:       %[[FAR:.*]] = arith.cmpf olt, %{{.*}} : vector<8xf32>
// CHECK:       %[[SIZE:.*]] = arith.select %[[FAR]], %{{.*}} : vector<8xi1>, vector<8xf32>
// CHECK:       math.copysign %[[SIZE]], %arg0
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

// Of 1 + erf all digits are kept: erfc(|x|), taken from 2 where x is positive.
// CHECK-LABEL: func.func @one_plus_erf
// CHECK-NOT:   math.{{erf|exp}}
// CHECK:       %[[SMALL:.*]] = arith.select
// CHECK:       %[[REST:.*]] = arith.subf %{{.*}}, %[[SMALL]]
// CHECK:       %[[SUM:.*]] = arith.select %{{.*}}, %[[SMALL]], %[[REST]]
// CHECK-NEXT:  return %[[SUM]]
func.func @one_plus_erf(%x: vector<16xf32>) -> vector<16xf32> {
  %one = arith.constant dense<1.0> : vector<16xf32>
  %y = math.erf %x : vector<16xf32>
  %z = arith.addf %one, %y : vector<16xf32>
  return %z : vector<16xf32>
}

// Another sum, and an erf that is used elsewhere, stay sums.
// CHECK-LABEL: func.func @two_plus_erf
// CHECK:       %[[ERF:.*]] = arith.select
// CHECK:       arith.addf %[[ERF]]
// CHECK:       arith.addf %[[ERF]]
func.func @two_plus_erf(%x: f32) -> (f32, f32) {
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %y = math.erf %x : f32
  %z = arith.addf %y, %one : f32
  %w = arith.addf %y, %two : f32
  return %z, %w : f32, f32
}

// In f64, rounded once. The loop over lanes is for angles that are not reduced.
// CHECK-LABEL: func.func @sine
// CHECK:       arith.extf %{{.*}} : vector<8xf32> to vector<8xf64>
// CHECK-NOT:   math.sin
// CHECK:       %[[NEAR:.*]] = arith.truncf %{{.*}} : vector<8xf64> to vector<8xf32>
// CHECK:       %[[LARGE:.*]] = arith.cmpf oge, %{{.*}} : vector<8xf32>
// CHECK:       %[[ANY:.*]] = vector.reduction <or>, %[[LARGE]]
// CHECK:       scf.if %[[ANY]]
// CHECK:         scf.for
// CHECK:           math.sin %{{.*}} {buddy.call} : f32
// CHECK:         arith.select %[[LARGE]], %{{.*}}, %[[NEAR]]
// CHECK:       } else {
// CHECK-NEXT:    scf.yield %[[NEAR]]
func.func @sine(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.sin %x : vector<8xf32>
  return %y : vector<8xf32>
}

// CHECK-LABEL: func.func @scalable_sine
// CHECK:       vector.vscale
// CHECK:       math.cos %{{.*}} {buddy.call} : f32
func.func @scalable_sine(%x: vector<[4]xf32>) -> vector<[4]xf32> {
  %y = math.cos %x : vector<[4]xf32>
  return %y : vector<[4]xf32>
}

// No call at all.
// CHECK-LABEL: func.func @wide
// CHECK-NOT:   math.{{powf|atan2|exp|log|floor %.* : f32}}
// CHECK:       arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT:   math.{{powf|atan2|exp|log}}
// CHECK:       return
func.func @wide(%x: f32, %y: f32) -> (f32, f32) {
  %a = math.powf %x, %y : f32
  %b = math.atan2 %x, %y : f32
  return %a, %b : f32, f32
}

// f64, and functions without a formula, are the C library's.
// CHECK-LABEL: func.func @calls
// CHECK:       math.tanh %{{.*}} : f64
// CHECK:       math.sin %{{.*}} : f64
// CHECK:       math.acosh
func.func @calls(%x: f64, %y: f32) -> (f64, f64, f32) {
  %a = math.tanh %x : f64
  %b = math.sin %x : f64
  %c = math.acosh %y : f32
  return %a, %b, %c : f64, f64, f32
}

// Of f64 exp and log; others are the C library's.
// CHECK-LABEL: func.func @doubles
// CHECK-NOT:   math.{{exp|log}} 
// CHECK:       math.sin %{{.*}} : vector<8xf64>
func.func @doubles(%x: vector<8xf64>) -> vector<8xf64> {
  %e = math.exp %x : vector<8xf64>
  %l = math.log %e : vector<8xf64>
  %s = math.sin %l : vector<8xf64>
  return %s : vector<8xf64>
}
