// RUN: buddy-opt --buddy-emit-entries --split-input-file %s | FileCheck %s

module attributes {buddy.build_id = "42", buddy.target = #buddy.target<name = "x86-64-v3",
    triple = "x86_64-unknown-linux-gnu", cpu = "x86-64-v3", features = "", abi = "">} {

// The context goes first everywhere; what is not an entry is hidden.
// CHECK-LABEL: func.func private @callee(
// CHECK-SAME:    %[[CTX:[a-z0-9]+]]: !llvm.ptr, %[[OK:[a-z0-9]+]]: i1, %[[WORK:[a-z0-9]+]]: index)
// CHECK-SAME:    llvm.linkage = #llvm.linkage<internal>
// CHECK:         %[[TEXT:.*]] = llvm.mlir.addressof @[[MESSAGE:.*]] : !llvm.ptr
// CHECK:         llvm.call @buddy.check(%[[CTX]], %[[OK]], %[[TEXT]])
// CHECK:         %[[AT:.*]] = llvm.getelementptr %[[CTX]][4]
// CHECK:         %[[COUNT:.*]] = llvm.load %[[AT]] : !llvm.ptr -> i32
// CHECK:         %[[MANY:.*]] = arith.maxsi %[[COUNT]], %[[ONE:.*]] : i32
// CHECK:         %[[SMALL:.*]] = arith.cmpi slt, %[[WORK]]
// CHECK:         %[[N:.*]] = arith.select %[[SMALL]], %[[ONE]], %[[MANY]]
// CHECK:         omp.parallel num_threads(%[[N]] : i32)
func.func @callee(%ok: i1, %work: index) {
  buddy.check %ok, "index out of range"
  %n = buddy.num_threads %work
  omp.parallel num_threads(%n : i32) {
    omp.terminator
  }
  return
}

// CHECK:       func.func private @main.check_sizes(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64) -> i32

// CHECK-LABEL: func.func @main_workspace_size(
// CHECK-SAME:    %[[CTX:[a-z0-9]+]]: !llvm.ptr, %[[X:[a-z0-9]+]]: !llvm.ptr, %[[N:[a-z0-9]+]]: i64) -> i64
// CHECK:         %[[RC:.*]] = call @main.check_sizes(%[[CTX]], %[[X]], %[[N]])
// CHECK:         %[[AT:.*]] = llvm.getelementptr %[[X]][24]
// CHECK:         %[[SIZE:.*]] = llvm.load %[[AT]]
// CHECK:         %[[DIM:.*]] = arith.index_cast %[[SIZE]]
// CHECK:         %[[NI:.*]] = arith.index_cast %[[N]]
// CHECK:         call @main.workspace_size(%[[CTX]], %[[DIM]], %[[NI]])

// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[CTX:[a-z0-9]+]]: !llvm.ptr, %[[X:[a-z0-9]+]]: !llvm.ptr, %[[N:[a-z0-9]+]]: i64) -> i32
// CHECK:         call @main.check_sizes
// CHECK:         call @main.workspace_size
// CHECK:         llvm.call @buddy.set_block_time
// The weights of the context, at the offset.
// CHECK:         %[[FIELD:.*]] = llvm.getelementptr %[[CTX]][32]
// CHECK:         %[[WEIGHTS:.*]] = llvm.load %[[FIELD]] : !llvm.ptr -> !llvm.ptr
// CHECK:         %[[AT:.*]] = arith.constant 128 : i64
// CHECK:         llvm.getelementptr %[[WEIGHTS]][%[[AT]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK:         builtin.unrealized_conversion_cast %{{.*}} to memref<2x2xf32>
// CHECK:         %[[WS:.*]] = builtin.unrealized_conversion_cast %{{.*}} to memref<?xi8>
// CHECK:         call @main.body(%[[CTX]], %{{.*}}, %{{.*}}, %[[N]], %[[WS]])
// CHECK:         %[[AT:.*]] = llvm.getelementptr %[[CTX]][12]
// CHECK:         %[[ERROR:.*]] = llvm.load %[[AT]] : !llvm.ptr -> i32
// CHECK:         return %[[ERROR]]

// CHECK-LABEL: func.func private @main.body(
// CHECK-SAME:    %[[CTX:[a-z0-9]+]]: !llvm.ptr
// CHECK:         call @callee(%[[CTX]],
func.func @main(
    %w: memref<2x2xf32> {buddy.kind = "weight", buddy.name = "w", buddy.shape = ["2", "2"],
                         buddy.weight_offset = 128 : i64},
    %x: memref<?xf32> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["n"]},
    %n: i64 {buddy.kind = "size", buddy.name = "n", buddy.shape = ["n"]},
    %ws: memref<?xi8> {buddy.workspace}) attributes {buddy.entry} {
  %ok = arith.constant true
  %work = arith.index_cast %n : i64 to index
  call @callee(%ok, %work) : (i1, index) -> ()
  return
}
func.func private @main.workspace_size(%d: index, %n: index) -> index {
  return %d : index
}

// CHECK:       memref.global "private" @table
memref.global @table : memref<1xf32> = dense<1.0>

// CHECK-DAG:   llvm.mlir.global internal constant @[[MESSAGE]]("index out of range\00")
// CHECK-DAG:   llvm.mlir.global external constant @buddy_build_id("42\00")
// CHECK-DAG:   llvm.mlir.global external constant @buddy_target("x86-64-v3|x86_64-unknown-linux-gnu|x86-64-v3|\00")
}

// -----

// With the libgomp layer there is no block time to set; no loop, no runtime.
module attributes {buddy.target = #buddy.target<name = "rv64gcv",
    triple = "riscv64-unknown-linux-gnu", cpu = "generic-rv64", features = "", abi = "lp64d">} {
// CHECK-LABEL: func.func @parallel(
// CHECK-NOT:     block_time
func.func @parallel() attributes {buddy.entry} {
  omp.parallel {
    omp.terminator
  }
  return
}
}
