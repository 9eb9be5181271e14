// RUN: buddy-opt %s --split-input-file --buddy-lower-calls --verify-diagnostics | FileCheck %s

// One declaration of a function without effects for both calls.
// CHECK-LABEL: func @twice
// CHECK:       %[[Y:.+]] = llvm.call @buddy_special_digamma(%{{.+}}) : (f64) -> f64
// CHECK:       llvm.call @buddy_special_digamma(%[[Y]]) : (f64) -> f64
// CHECK:       llvm.func @buddy_special_digamma(f64) -> f64
// CHECK-SAME:  memory_effects = #llvm.memory_effects<other = none
// CHECK-NOT:   llvm.func
func.func @twice(%x: f64) -> f64 {
  %y = buddy.scalar_call "buddy_special_digamma"(%x) : (f64) -> f64
  %z = buddy.scalar_call "buddy_special_digamma"(%y) : (f64) -> f64
  return %z : f64
}

// -----

func.func private @taken()

func.func @clash(%x: f64) -> f64 {
  // expected-error@+1 {{'taken' is something else in this module}}
  %y = buddy.scalar_call "taken"(%x) : (f64) -> f64
  return %y : f64
}
