// RUN: buddy-opt %s --split-input-file --verify-diagnostics

func.func @heads(%q: tensor<8x4x64xf32>, %k: tensor<3x4x64xf32>) {
  // expected-error @+1 {{query heads a multiple of key heads}}
  %o = buddy.attention %q, %k, %k {causal = "none", scale = 1.0 : f64}
    : (tensor<8x4x64xf32>, tensor<3x4x64xf32>, tensor<3x4x64xf32>) -> tensor<8x4x64xf32>
  return
}

// -----

func.func @causal(%q: tensor<8x4x64xf32>) {
  // expected-error @+1 {{causal must be none, top_left or bottom_right}}
  %o = buddy.attention %q, %q, %q {causal = "yes", scale = 1.0 : f64}
    : (tensor<8x4x64xf32>, tensor<8x4x64xf32>, tensor<8x4x64xf32>) -> tensor<8x4x64xf32>
  return
}

// -----

func.func @destination(%q: tensor<8x4x64xf32>, %o: tensor<8x5x64xf32>) {
  // expected-error @+1 {{result shape does not fit}}
  %r = buddy.attention_into %q, %q, %q, %o {causal = "none", scale = 1.0 : f64}
    : (tensor<8x4x64xf32>, tensor<8x4x64xf32>, tensor<8x4x64xf32>, tensor<8x5x64xf32>) -> tensor<8x5x64xf32>
  return
}

// -----

func.func @no_result(%q: tensor<8x4x64xf32>) {
  // expected-error @+1 {{expected the number of tensor results (0) to be equal to the number of output tensors (1)}}
  buddy.attention_into %q, %q, %q, %q {causal = "none", scale = 1.0 : f64}
    : (tensor<8x4x64xf32>, tensor<8x4x64xf32>, tensor<8x4x64xf32>, tensor<8x4x64xf32>) -> ()
  return
}

// -----

func.func @dim(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{dim 2 out of range for rank 2}}
  %o = buddy.softmax %x {dim = 2 : i64} : tensor<8x4xf32>
  return
}

// -----

func.func @weight(%x: tensor<8x4xf32>, %w: tensor<5xf32>) {
  // expected-error @+1 {{parameter shape does not fit the input}}
  %o = buddy.rms_norm %x, %w {dims = 1 : i64, eps = 1.0 : f64} : (tensor<8x4xf32>, tensor<5xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @bias(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{parameters do not fit has_weight and has_bias}}
  %o = buddy.layer_norm %x {dims = 1 : i64, eps = 1.0 : f64, has_weight = true, has_bias = false} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @no_destination(%x: tensor<4xf32>) {
  // expected-error @+1 {{needs destinations among its operands}}
  buddy.library_call "f"(%x) {destinations = 0 : i64} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @elements(%x: memref<4xf16>, %y: memref<4xf32>) {
  // expected-error @+1 {{has no arrays of 'f16'}}
  buddy.library_call "f"(%x, %y) {destinations = 1 : i64} : (memref<4xf16>, memref<4xf32>) -> ()
  return
}
