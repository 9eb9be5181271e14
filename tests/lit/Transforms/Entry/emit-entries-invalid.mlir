// RUN: buddy-opt --buddy-emit-entries --split-input-file --verify-diagnostics %s

// expected-error @below {{an entry point returns nothing: results are written to output arguments}}
func.func @result() -> i64 attributes {buddy.entry} {
  %c = arith.constant 0 : i64
  return %c : i64
}

// -----

// expected-error @below {{argument 'w' has buddy.weight_offset and needs a static shape and static strides}}
func.func @dynamic_weight(%w: memref<?xf32> {buddy.name = "w", buddy.weight_offset = 0 : i64}) attributes {buddy.entry} {
  return
}

// -----

// expected-error @below {{argument 'x': buddy.shape has 1 dimensions, the type 2}}
func.func @shape(%x: memref<2x?xf32> {buddy.name = "x", buddy.shape = ["2"]}) attributes {buddy.entry} {
  return
}

// -----

// expected-error @below {{argument '#0' of an entry point has type 'vector<4xf32>'; only memrefs and scalars can be passed}}
func.func @vector(%x: vector<4xf32>) attributes {buddy.entry} {
  return
}
