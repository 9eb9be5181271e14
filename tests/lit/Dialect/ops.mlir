// RUN: buddy-opt %s | buddy-opt | FileCheck %s
// RUN: buddy-opt %s --emit-bytecode | buddy-opt | FileCheck %s
// RUN: buddy-opt %s --mlir-print-op-generic | buddy-opt | FileCheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%q: tensor<9x?x64xf32>, %k: tensor<3x?x64xf32>, %m: tensor<?x?xi1>, %w: tensor<64xf32>, %n: index, %c: i1, %qb: memref<9x?x64xf32>, %mb: memref<?xi8>) {
  // CHECK: buddy.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal = "bottom_right", scale = 1.250000e-01 : f64}
  %o = buddy.attention %q, %k, %k, %m {causal = "bottom_right", scale = 0.125 : f64}
    : (tensor<9x?x64xf32>, tensor<3x?x64xf32>, tensor<3x?x64xf32>, tensor<?x?xi1>) -> tensor<9x?x64xf32>
  // CHECK: buddy.attention_into %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal = "none", scale = 1.000000e+00 : f64} : ({{.*}}) -> tensor<9x?x64xf32>
  %i = buddy.attention_into %q, %k, %k, %o {causal = "none", scale = 1.0 : f64}
    : (tensor<9x?x64xf32>, tensor<3x?x64xf32>, tensor<3x?x64xf32>, tensor<9x?x64xf32>) -> tensor<9x?x64xf32>
  // CHECK: buddy.attention_into {{.*}} : ({{.*}}memref<?xi8>, memref<9x?x64xf32>) -> ()
  buddy.attention_into %qb, %qb, %qb, %mb, %qb {causal = "none", scale = 1.0 : f64}
    : (memref<9x?x64xf32>, memref<9x?x64xf32>, memref<9x?x64xf32>, memref<?xi8>, memref<9x?x64xf32>) -> ()
  // CHECK: buddy.softmax %{{.*}} {dim = 2 : i64}
  %s = buddy.softmax %o {dim = 2 : i64} : tensor<9x?x64xf32>
  // CHECK: buddy.rms_norm
  %r = buddy.rms_norm %s, %w {dims = 1 : i64, eps = 1.0e-5 : f64} : (tensor<9x?x64xf32>, tensor<64xf32>) -> tensor<9x?x64xf32>
  // CHECK: buddy.layer_norm
  %l = buddy.layer_norm %r, %w {dims = 1 : i64, eps = 1.0e-5 : f64, has_weight = false, has_bias = true}
    : (tensor<9x?x64xf32>, tensor<64xf32>) -> tensor<9x?x64xf32>
  // CHECK: buddy.check %{{.*}}, "index out of range"
  buddy.check %c, "index out of range"
  // CHECK: buddy.num_threads
  %t = buddy.num_threads %n
  return
}
