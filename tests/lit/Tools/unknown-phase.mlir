// RUN: not buddy-opt %s --buddy-pipeline="stop-after=bogus" 2>&1 | FileCheck %s --implicit-check-not="LLVM ERROR"
// RUN: not buddy-opt %s --buddy-pipeline="start-from=graf" 2>&1 | FileCheck %s --check-prefix=START
// RUN: not buddy-opt %s --buddy-pipeline="start-from=llvm stop-after=graph" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not buddy-opt %s --buddy-pipeline="start-from=kernel" 2>&1 | FileCheck %s --check-prefix=RAW
// RUN: buddy-opt %s --buddy-pipeline="stop-after=graph" | not buddy-opt - --buddy-pipeline="start-from=llvm" 2>&1 | FileCheck %s --check-prefix=SKIPS
// RUN: buddy-opt %s --buddy-pipeline | not buddy-opt - --buddy-pipeline="start-from=llvm" 2>&1 | FileCheck %s --check-prefix=DONE
// RUN: buddy-opt %s --buddy-pipeline="stop-after=graph" | buddy-opt - --buddy-pipeline="start-from=kernel" | FileCheck %s --check-prefix=RESUMED
// RUN: buddy-opt %s --buddy-pipeline="stop-after=import" | buddy-opt - --buddy-pipeline | FileCheck %s --check-prefix=RESUMED
// RUN: buddy-opt %s --buddy-pipeline="stop-after=import" | buddy-opt - --buddy-pipeline="start-from=graph target=rv64gcv" | FileCheck %s --check-prefix=RESUMED
// RUN: buddy-opt %s --buddy-pipeline="stop-after=graph" | not buddy-opt - --buddy-pipeline="" 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: buddy-opt %s --buddy-pipeline="stop-after=kernel target=x86-64-v3" | not buddy-opt - --buddy-pipeline="start-from=llvm target=rv64gcv" 2>&1 | FileCheck %s --check-prefix=OTHER --implicit-check-not="current operation"
// RUN: buddy-opt %s --buddy-pipeline="stop-after=kernel target=x86-64-v3" | buddy-opt - --buddy-pipeline="start-from=llvm target=x86-64-v3" | FileCheck %s --check-prefix=RESUMED
// RUN: not buddy-opt %s --buddy-pipeline="target=z80" 2>&1 | FileCheck %s --check-prefix=TARGET --implicit-check-not="current operation"
// RUN: not buddy-opt %s --buddy-pipeline="dump-phases-to=/dev/null/dumps" 2>&1 | FileCheck %s --check-prefix=DUMP --implicit-check-not="current operation"
// RUN: not buddy-opt %s --buddy-pipeline="activations=int9" 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not buddy-opt %s --buddy-pipeline="traget=native" 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: buddy-pipeline: error: no such option traget; options: target, stop-after, start-from, dump-phases-to, activations
// ROWS: error: unknown activations 'int9'; int8 or f32
// ORDER: error: start-from=llvm comes after stop-after=graph
// RAW: error: phase 'kernel' cannot start from a module that no phase has run on; start-from=import takes it
// SKIPS: error: phase 'llvm' cannot start from a module after phase 'graph'; start-from=kernel takes it
// DONE: error: phase 'llvm' cannot start from a module after phase 'llvm'; it is ready for buddy-translate or buddy-llc
// AGAIN: error: phase 'import' cannot start from a module after phase 'graph'; start-from=kernel takes it
// OTHER: error: the module was lowered for target 'x86-64-v3' and cannot go on for 'rv64gcv'; leave target out
// TARGET: error: unknown target 'z80'; known targets:
// DUMP: error: cannot create /dev/null/dumps: Not a directory
// RESUMED: module attributes {buddy.phase = "llvm"
// CHECK: buddy-pipeline: error: unknown phase 'bogus'; phases: import, graph, kernel, llvm
// START: unknown phase 'graf'
module {}
