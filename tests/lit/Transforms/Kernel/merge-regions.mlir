// RUN: buddy-opt --buddy-merge-regions --canonicalize --cse --split-input-file %s | FileCheck %s

// %a and %b are independent: one region, threads for the work of both. What
// reads them comes after it.
// CHECK-LABEL: func.func @phases(
// CHECK-SAME:    %[[X:.*]]: memref<?xf32>, %[[A:.*]]: memref<?xf32>, %[[B:.*]]: memref<?xf32>, %[[W:.*]]: index, %[[V:.*]]: index)
// CHECK:         %[[DOUBLE:.*]] = arith.muli %[[V]]
// CHECK:         %[[OTHER:.*]] = buddy.num_threads %[[DOUBLE]]
// CHECK:         %[[BOTH:.*]] = arith.addi %[[W]], %[[V]]
// CHECK:         %[[COUNT:.*]] = buddy.num_threads %[[BOTH]]
// CHECK:         omp.parallel num_threads(%[[COUNT]] : i32) {
// CHECK-NEXT:      omp.wsloop nowait
// CHECK:             memref.store %{{.*}}, %[[A]]
// CHECK:           omp.wsloop nowait
// CHECK:             memref.store %{{.*}}, %[[B]]
// CHECK:           omp.terminator
// CHECK:         omp.parallel num_threads(%[[OTHER]] : i32) {
// CHECK-NEXT:      omp.wsloop nowait
// CHECK:             memref.load %[[A]]
// CHECK:             memref.load %[[B]]
// CHECK:           omp.terminator
// CHECK-NOT:     omp.parallel
func.func @phases(%x: memref<?xf32>, %a: memref<?xf32>, %b: memref<?xf32>, %w: index, %v: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t0 = buddy.num_threads %w
  omp.parallel num_threads(%t0 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %a[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %t1 = buddy.num_threads %v
  omp.parallel num_threads(%t1 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %b[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %double = arith.muli %v, %c2 : index
  %t2 = buddy.num_threads %double
  omp.parallel num_threads(%t2 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %a[%i] : memref<?xf32>
        %e1 = memref.load %b[%i] : memref<?xf32>
        %g = arith.addf %e0, %e1 : f32
        memref.store %g, %x[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// -----

// A loop joins those before it that it does not depend on, past one that waits
// for them. To read and then write the same buffer is an order too. A check on
// sizes goes first, where the function can still return.
// CHECK-LABEL: func.func @order(
// CHECK-SAME:    %[[X:.*]]: memref<?xf32>, %[[A:.*]]: memref<?xf32>, %[[B:.*]]: memref<?xf32>, %{{.*}}: index)
// CHECK:         buddy.check
// CHECK:         omp.parallel
// CHECK:           memref.store %{{.*}}, %[[A]]
// CHECK-NOT:       omp.parallel
// CHECK:           memref.store %{{.*}}, %[[B]]
// CHECK:         omp.parallel
// CHECK:           memref.load %[[A]]
// CHECK:           memref.store %{{.*}}, %[[X]]
func.func @order(%x: memref<?xf32>, %a: memref<?xf32>, %b: memref<?xf32>, %w: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t3 = buddy.num_threads %w
  omp.parallel num_threads(%t3 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %a[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %ok = arith.cmpi sgt, %n, %c1 : index
  buddy.check %ok, "too small" {buddy.precondition}
  %t4 = buddy.num_threads %w
  omp.parallel num_threads(%t4 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %a[%i] : memref<?xf32>
        memref.store %e0, %x[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %t5 = buddy.num_threads %w
  omp.parallel num_threads(%t5 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %b[%i] : memref<?xf32>
        memref.store %e0, %b[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// -----

// Branches on sizes take their loops along; buffers of a thread are allocated
// once, whichever loop is run. The work is that of the branch taken.
// CHECK-LABEL: func.func @branches(
// CHECK-SAME:    %[[X:.*]]: memref<?xf32>, %[[A:.*]]: memref<?xf32>, %[[B:.*]]: memref<?xf32>, %[[W:.*]]: index, %[[V:.*]]: index, %[[C:.*]]: i1)
// CHECK:         %[[TWICE:.*]] = arith.addi %[[V]], %[[V]]
// CHECK:         %[[ONE:.*]] = arith.select %[[C]], %[[W]], %[[TWICE]]
// CHECK:         %[[BOTH:.*]] = arith.addi %[[ONE]], %[[W]]
// CHECK:         %[[N:.*]] = buddy.num_threads %[[BOTH]]
// CHECK:         omp.parallel num_threads(%[[N]] : i32)
// CHECK-NEXT:      %[[T:.*]] = memref.alloc() : memref<64xf32>
// CHECK-NEXT:      scf.if %[[C]] {
// CHECK-NEXT:        omp.wsloop nowait
// CHECK:           } else {
// CHECK-NEXT:        omp.wsloop nowait
// CHECK:               memref.store %{{.*}}, %[[T]]
// CHECK:           omp.wsloop nowait
// CHECK:             memref.store %{{.*}}, %[[B]]
// CHECK-NOT:     omp.parallel
func.func @branches(%x: memref<?xf32>, %a: memref<?xf32>, %b: memref<?xf32>, %w: index, %v: index, %c: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  scf.if %c {
    %t6 = buddy.num_threads %w
    omp.parallel num_threads(%t6 : i32) {
      omp.wsloop nowait {
        omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
          %e0 = memref.load %x[%i] : memref<?xf32>
          memref.store %e0, %a[%i] : memref<?xf32>
          omp.yield
        }
      }
      omp.terminator
    }
  } else {
    %twice = arith.addi %v, %v : index
    %t = buddy.num_threads %twice
    omp.parallel num_threads(%t : i32) {
      %own = memref.alloc() : memref<64xf32>
      omp.wsloop nowait {
        omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
          %e = memref.load %x[%i] : memref<?xf32>
          %k = arith.remui %i, %c64 : index
          memref.store %e, %own[%k] : memref<64xf32>
          %f = memref.load %own[%c0] : memref<64xf32>
          memref.store %f, %a[%i] : memref<?xf32>
          omp.yield
        }
      }
      omp.terminator
    }
  }
  %t7 = buddy.num_threads %w
  omp.parallel num_threads(%t7 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %b[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// -----

// Sequential ops stay whole and in order with what they depend on; the loop
// that is independent of them joins the first. A read that nothing writes before
// goes ahead.
// CHECK-LABEL: func.func @sequential(
// CHECK-SAME:    %[[X:.*]]: memref<?xf32>, %[[A:.*]]: memref<?xf32>, %[[S:.*]]: memref<f32>, %[[R:.*]]: memref<f32>, %[[B:.*]]: memref<?xf32>, %{{.*}}: index)
// CHECK:         memref.load %[[R]][]
// CHECK:         omp.parallel
// CHECK:           memref.store %{{.*}}, %[[A]]
// CHECK:           memref.store %{{.*}}, %[[B]]
// CHECK:           omp.terminator
// CHECK:         %[[E:.*]] = memref.load %[[A]][%c0]
// CHECK:         %[[F:.*]] = arith.mulf %[[E]]
// CHECK:         memref.store %[[F]], %[[S]][]
// CHECK:         omp.parallel
// CHECK:           memref.store %{{.*}}, %[[A]]
func.func @sequential(%x: memref<?xf32>, %a: memref<?xf32>, %s: memref<f32>, %r: memref<f32>, %b: memref<?xf32>, %w: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t8 = buddy.num_threads %w
  omp.parallel num_threads(%t8 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %a[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %q = memref.load %r[] : memref<f32>
  %e = memref.load %a[%c0] : memref<?xf32>
  %f = arith.mulf %e, %q : f32
  memref.store %f, %s[] : memref<f32>
  %t9 = buddy.num_threads %w
  omp.parallel num_threads(%t9 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %a[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %t90 = buddy.num_threads %w
  omp.parallel num_threads(%t90 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %b[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// -----

func.func private @use(memref<?xf32>)

// A call ends a region; so does a value from memory that is needed outside, a
// check's condition among them. One loop alone stays as it is.
// CHECK-LABEL: func.func @kept_apart(
// CHECK:         omp.wsloop nowait {
// CHECK:         call @use
// CHECK:         omp.wsloop nowait {
// CHECK:         memref.load
// CHECK:         buddy.check
// CHECK:         omp.wsloop nowait {
func.func @kept_apart(%x: memref<?xf32>, %a: memref<?xf32>, %z: memref<?xindex>, %w: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t = buddy.num_threads %w
  omp.parallel num_threads(%t : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e = memref.load %x[%i] : memref<?xf32>
        memref.store %e, %a[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  call @use(%a) : (memref<?xf32>) -> ()
  omp.parallel num_threads(%t : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%j) : index = (%c0) to (%n) step (%c1) {
        memref.store %j, %z[%j] : memref<?xindex>
        omp.yield
      }
    }
    omp.terminator
  }
  %m = memref.load %z[%c0] : memref<?xindex>
  %ok = arith.cmpi sle, %m, %n : index
  buddy.check %ok, "no"
  omp.parallel num_threads(%t : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%j) : index = (%c0) to (%m) step (%c1) {
        memref.store %j, %z[%j] : memref<?xindex>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// -----

func.func private @use(memref<?xf32>)

// Alone stay a thread's buffer of dynamic size, threads that do not follow from
// work, and all on both sides of unknown effects. The loops around share regions.
// CHECK-LABEL: func.func @not_ours(
// CHECK-SAME:    %[[X:[a-z0-9]*]]: memref<?xf32>, %[[A:[a-z0-9]*]]: memref<?xf32>, %[[B:[a-z0-9]*]]: memref<?xf32>, %[[C:[a-z0-9]*]]: memref<?xf32>,
// CHECK:         omp.parallel
// CHECK-NEXT:      memref.alloc
// CHECK-NEXT:      omp.wsloop
// CHECK:             memref.store %{{.*}}, %[[B]]
// CHECK:           omp.terminator
// CHECK:         omp.parallel
// CHECK-NEXT:      omp.wsloop
// CHECK:             memref.store %{{.*}}, %[[A]]
// CHECK:           omp.wsloop
// CHECK:             memref.store %{{.*}}, %[[C]]
// CHECK:           omp.terminator
// CHECK:         omp.parallel
// CHECK-NEXT:      omp.wsloop
// CHECK:             call @use
// CHECK:           omp.terminator
// CHECK:         omp.parallel
// CHECK-NEXT:      omp.wsloop
// CHECK:             memref.store %{{.*}}, %[[A]]
// CHECK:           omp.terminator
// CHECK:         omp.parallel num_threads(%{{.*}} : i32)
// CHECK-NEXT:      omp.wsloop
// CHECK:             memref.store %{{.*}}, %[[B]]
// CHECK:           omp.terminator
func.func @not_ours(%x: memref<?xf32>, %a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>, %w: index, %count: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t0 = buddy.num_threads %w
  omp.parallel num_threads(%t0 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %a[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %t = buddy.num_threads %w
  omp.parallel num_threads(%t : i32) {
    %own = memref.alloc(%n) : memref<?xf32>
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e = memref.load %x[%i] : memref<?xf32>
        memref.store %e, %own[%i] : memref<?xf32>
        %f = memref.load %own[%c0] : memref<?xf32>
        memref.store %f, %b[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  %t1 = buddy.num_threads %w
  omp.parallel num_threads(%t1 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %c[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  omp.parallel num_threads(%t : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        func.call @use(%x) : (memref<?xf32>) -> ()
        omp.yield
      }
    }
    omp.terminator
  }
  %t2 = buddy.num_threads %w
  omp.parallel num_threads(%t2 : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e0 = memref.load %x[%i] : memref<?xf32>
        memref.store %e0, %a[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  omp.parallel num_threads(%count : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        %e = memref.load %x[%i] : memref<?xf32>
        memref.store %e, %b[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}
