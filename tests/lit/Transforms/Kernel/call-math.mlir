// RUN: buddy-opt --buddy-call-math %s | FileCheck %s
// RUN: buddy-opt --buddy-pipeline="target=x86-64-v3" %s | FileCheck %s --check-prefix=LLVM

// CHECK-DAG:   func.func private @expm1(f64) -> f64
// CHECK-DAG:   func.func private @log1p(f64) -> f64
// CHECK-LABEL: func.func @near_zero
// CHECK:         %[[E:.+]] = call @expm1(%{{.+}}) : (f64) -> f64
// CHECK:         call @log1p(%[[E]]) : (f64) -> f64
// Others are left to the conversions that follow.
// CHECK:         math.exp
// CHECK:         math.sqrt
// LLVM-LABEL:  llvm.func {{.*}}@near_zero
// LLVM:          llvm.call @expm1
// LLVM:          llvm.call @log1p
// LLVM-NOT:      @exp(
// LLVM:          llvm.intr.sqrt
func.func @near_zero(%x: f64) -> (f64, f64, f64) {
  %e = math.expm1 %x : f64
  %l = math.log1p %e : f64
  %y = math.exp %x : f64
  %z = math.sqrt %x : f64
  return %l, %y, %z : f64, f64, f64
}

// CHECK-LABEL: func.func @lanes
// CHECK-COUNT-2: call @expm1(%{{.+}}) : (f64) -> f64
// CHECK-NOT:     math.expm1
func.func @lanes(%x: vector<2xf64>) -> vector<2xf64> {
  %e = math.expm1 %x : vector<2xf64>
  return %e : vector<2xf64>
}
