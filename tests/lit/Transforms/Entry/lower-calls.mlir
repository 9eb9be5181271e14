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

// -----

// An array as the address of its first element, its type's number, its rank,
// sizes and strides, in the frame even where the call is in a loop.
// CHECK-LABEL: func @arrays
// CHECK-SAME:  %[[X:[^:]*]]: memref<?x4xcomplex<f32>, strided<[?, 1], offset: ?>>
// CHECK:       %[[EIGHT:.+]] = arith.constant 3 : i64
// CHECK-NEXT:  %[[INFO:.+]] = llvm.alloca %[[EIGHT]] x i64
// CHECK:       %[[SEVEN:.+]] = arith.constant 7 : i64
// CHECK-NEXT:  %[[ARRAY:.+]] = llvm.alloca %[[SEVEN]] x i64
// CHECK:       scf.for
// CHECK-NOT:   llvm.alloca
// CHECK:       %[[BASE:.+]], %[[OFFSET:.+]], %[[SIZES:.+]]:2, %[[STRIDES:.+]]:2 = memref.extract_strided_metadata %[[X]]
// CHECK:       arith.muli %{{.+}}, %c8_i64
// CHECK:       %[[DATA:.+]] = arith.addi
// CHECK:       %[[P0:.+]] = llvm.getelementptr %[[ARRAY]][0]
// CHECK:       llvm.store %[[DATA]], %[[P0]]
// CHECK:       %[[P1:.+]] = llvm.getelementptr %[[ARRAY]][1]
// CHECK:       llvm.store %c2_i64{{.*}}, %[[P1]]
// CHECK:       llvm.call @f(%[[ARRAY]], %{{.+}}, %[[INFO]]) : (!llvm.ptr, f64, !llvm.ptr) -> ()
// CHECK:       llvm.func @f(!llvm.ptr, f64, !llvm.ptr)
func.func @arrays(%x: memref<?x4xcomplex<f32>, strided<[?, 1], offset: ?>>, %s: f64, %info: memref<i32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    buddy.library_call "f"(%x, %s, %info) {destinations = 1 : i64}
      : (memref<?x4xcomplex<f32>, strided<[?, 1], offset: ?>>, f64, memref<i32>) -> ()
  }
  return
}

// -----

// The library is one for the compiler's machine.
module attributes {buddy.target = #buddy.target<name = "rv64gcv", triple = "riscv64-unknown-linux-gnu", cpu = "", features = "", abi = "">} {
  func.func @elsewhere(%x: memref<4xf32>, %y: memref<4xf32>) {
    // expected-error@+1 {{'f' is a function of the run-time library, which is built for x86_64 and not for riscv64}}
    buddy.library_call "f"(%x, %y) {destinations = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    return
  }
}
