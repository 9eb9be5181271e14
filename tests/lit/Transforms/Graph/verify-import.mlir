// RUN: buddy-opt %s --split-input-file --verify-diagnostics --buddy-verify-import

func.func @good(%x: memref<?x4xf32> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["s0", "4"]},
                %n: i64 {buddy.kind = "size", buddy.name = "n", buddy.shape = ["n"]},
                %w: memref<4xf32> {buddy.kind = "weight", buddy.name = "w", buddy.weight_offset = 64 : i64})
    attributes {buddy.entry} {
  return
}
// What is no entry is not looked at.
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32>

// -----

// expected-error @+1 {{entry @tensors, argument 0: must be a memref or an i64, not 'tensor<4xf32>'}}
func.func @tensors(%x: tensor<4xf32>) attributes {buddy.entry} {
  return
}

// -----

// expected-error @+1 {{entry @kind, argument 0 (x): buddy.kind must be input, weight, state, output or size, not "const"}}
func.func @kind(%x: memref<4xf32> {buddy.kind = "const", buddy.name = "x"}) attributes {buddy.entry} {
  return
}

// -----

// expected-error @+1 {{an i64 is of kind size and a memref is not}}
func.func @size(%x: memref<4xf32> {buddy.kind = "size"}) attributes {buddy.entry} {
  return
}

// -----

// expected-error @+1 {{must be a memref or an i64, not 'i32'}}
func.func @narrow(%n: i32 {buddy.kind = "size"}) attributes {buddy.entry} {
  return
}

// -----

// expected-error @+1 {{buddy.weight_offset must be an integer that is not negative}}
func.func @offset(%w: memref<4xf32> {buddy.kind = "weight", buddy.weight_offset = "64"}) attributes {buddy.entry} {
  return
}

// -----

// expected-error @+1 {{buddy.shape must be one string for each dimension}}
func.func @shape(%x: memref<4x4xf32> {buddy.kind = "input", buddy.shape = ["4"]}) attributes {buddy.entry} {
  return
}

// -----

// expected-error @+1 {{entry @absent has no body}}
func.func private @absent(%x: memref<4xf32>) attributes {buddy.entry}

// -----

// expected-error @+1 {{results are arguments of kind output}}
func.func @result() -> i64 attributes {buddy.entry} {
  %c = arith.constant 0 : i64
  return %c : i64
}
