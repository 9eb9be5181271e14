// RUN: buddy-opt --buddy-verify-no-copies --split-input-file --verify-diagnostics %s


// Reading in place, copying a part, writing: all is well.
func.func @in_place(
    %w: memref<8x4xf32> {buddy.kind = "weight", buddy.name = "w"},
    %s: memref<?x4xf32> {buddy.kind = "state", buddy.name = "cache"},
    %b: memref<4xf32> {buddy.kind = "weight", buddy.name = "bias"},
    %x: memref<8x4xf32> {buddy.kind = "input", buddy.name = "x"},
    %y: memref<8x4xf32> {buddy.kind = "output", buddy.name = "y"}) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %s, %c0 : memref<?x4xf32>
  %a = memref.alloc() : memref<8x4xf32>
  // An input may be copied.
  memref.copy %x, %a : memref<8x4xf32> to memref<8x4xf32>
  // A row of a cache too.
  %row = memref.subview %s[%n, 0] [1, 4] [1, 1]
    : memref<?x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
  %r = memref.alloc() : memref<1x4xf32>
  memref.copy %row, %r : memref<1x4xf32, strided<[4, 1], offset: ?>> to memref<1x4xf32>
  memref.copy %r, %row : memref<1x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
  // A bias starts an accumulation; a broadcast is no copy.
  %v = memref.alloc() : memref<4xf32>
  memref.copy %b, %v : memref<4xf32> to memref<4xf32>
  linalg.broadcast ins(%b : memref<4xf32>) outs(%a : memref<8x4xf32>) dimensions = [0]
  linalg.add ins(%w, %x : memref<8x4xf32>, memref<8x4xf32>) outs(%y : memref<8x4xf32>)
  return
}

// -----

func.func @copied(%s: memref<?x4xf32> {buddy.kind = "state", buddy.name = "cache"}) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %s, %c0 : memref<?x4xf32>
  %a = memref.alloc(%n) : memref<?x4xf32>
  // expected-error @below {{the whole of state 'cache' is copied}}
  memref.copy %s, %a : memref<?x4xf32> to memref<?x4xf32>
  return
}

// -----

// Through views that are the whole, and a call.
func.func @entry(%w: memref<8x4xf32> {buddy.kind = "weight", buddy.name = "layers.0.w"}) {
  %all = memref.subview %w[0, 0] [8, 4] [1, 1]
    : memref<8x4xf32> to memref<8x4xf32, strided<[4, 1]>>
  %d = memref.cast %all : memref<8x4xf32, strided<[4, 1]>> to memref<8x4xf32, strided<[?, 1], offset: ?>>
  call @layer(%d) : (memref<8x4xf32, strided<[?, 1], offset: ?>>) -> ()
  return
}
func.func private @layer(%w: memref<8x4xf32, strided<[?, 1], offset: ?>>) {
  %a = memref.alloc() : memref<4x8xf32>
  // expected-error @below {{the whole of weight 'layers.0.w' is copied}}
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}
    ins(%w : memref<8x4xf32, strided<[?, 1], offset: ?>>) outs(%a : memref<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// -----

// The old value is read after the state is overwritten.
func.func @old_value(%s: memref<8x4xf32> {buddy.kind = "state", buddy.name = "cache"},
                     %x: memref<8x4xf32> {buddy.kind = "input", buddy.name = "x"},
                     %y: memref<8x4xf32> {buddy.kind = "output", buddy.name = "y"}) {
  %a = memref.alloc() : memref<8x4xf32>
  memref.copy %s, %a : memref<8x4xf32> to memref<8x4xf32>
  memref.copy %x, %s : memref<8x4xf32> to memref<8x4xf32>
  linalg.add ins(%a, %x : memref<8x4xf32>, memref<8x4xf32>) outs(%y : memref<8x4xf32>)
  return
}

// -----

// Both the changed copy and the whole of the old value are needed.
func.func @changed_copy(%s: memref<8x4xf32> {buddy.kind = "state", buddy.name = "cache"},
                        %y: memref<8x4xf32> {buddy.kind = "output", buddy.name = "y"}) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<8x4xf32>
  memref.copy %s, %a : memref<8x4xf32> to memref<8x4xf32>
  memref.store %z, %a[%c0, %c0] : memref<8x4xf32>
  linalg.add ins(%a, %s : memref<8x4xf32>, memref<8x4xf32>) outs(%y : memref<8x4xf32>)
  memref.copy %a, %s : memref<8x4xf32> to memref<8x4xf32>
  return
}

// -----

// A row of a copy is changed while another row of the cache is read, and the copy
// goes back: the row could have been written in place.
func.func @other_row(%s: memref<8x4xf32> {buddy.kind = "state", buddy.name = "cache"},
                     %y: memref<1x4xf32> {buddy.kind = "output", buddy.name = "y"}) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<8x4xf32>
  // expected-error @below {{the whole of state 'cache' is copied}}
  memref.copy %s, %a : memref<8x4xf32> to memref<8x4xf32>
  memref.store %z, %a[%c0, %c0] : memref<8x4xf32>
  %row = memref.subview %s[1, 0] [1, 4] [1, 1]
    : memref<8x4xf32> to memref<1x4xf32, strided<[4, 1], offset: 4>>
  memref.copy %row, %y : memref<1x4xf32, strided<[4, 1], offset: 4>> to memref<1x4xf32>
  memref.copy %a, %s : memref<8x4xf32> to memref<8x4xf32>
  return
}

// -----

// What a user of torch.compile wrote is done as it is.
func.func @may_copy(%s: memref<8x4xf32> {buddy.kind = "state", buddy.name = "x"})
    attributes {buddy.entry, buddy.may_copy} {
  %a = memref.alloc() : memref<8x4xf32>
  memref.copy %s, %a : memref<8x4xf32> to memref<8x4xf32>
  return
}
