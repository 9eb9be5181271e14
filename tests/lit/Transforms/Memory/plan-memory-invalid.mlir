// RUN: buddy-opt --buddy-plan-memory --split-input-file --verify-diagnostics %s

func.func @returned(%n: index) -> memref<?xf32> {
  // expected-error @below {{a buffer allocated in a function is returned from it; use a destination argument}}
  %a = memref.alloc(%n) : memref<?xf32>
  // expected-note @below {{here}}
  return %a : memref<?xf32>
}

// -----

func.func @carried(%n: index, %x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> memref<?xf32> {
    // expected-error @below {{carried to the next; allocate it before the loop}}
    %b = memref.alloc(%n) : memref<?xf32>
    memref.copy %a, %b : memref<?xf32> to memref<?xf32>
    // expected-note @below {{here}}
    scf.yield %b : memref<?xf32>
  }
  memref.copy %r, %x : memref<?xf32> to memref<?xf32>
  return
}

// -----

// expected-error @below {{a recursive function has no workspace of known size}}
func.func @recursive(%n: index) {
  call @recursive(%n) : (index) -> ()
  return
}
