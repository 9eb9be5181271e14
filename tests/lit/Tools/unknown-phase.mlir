// RUN: not buddy-opt %s --buddy-pipeline="stop-after=bogus" 2>&1 | FileCheck %s --implicit-check-not="LLVM ERROR"
// RUN: not buddy-opt %s --buddy-pipeline="start-from=graf" 2>&1 | FileCheck %s --check-prefix=START
// RUN: not buddy-opt %s --buddy-pipeline="start-from=llvm stop-after=graph" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not buddy-opt %s --buddy-pipeline="start-from=kernel" 2>&1 | FileCheck %s --check-prefix=RAW
// RUN: buddy-opt %s --buddy-pipeline="stop-after=graph" | not buddy-opt - --buddy-pipeline="start-from=llvm" 2>&1 | FileCheck %s --check-prefix=SKIPS
// RUN: buddy-opt %s --buddy-pipeline | not buddy-opt - --buddy-pipeline="start-from=llvm" 2>&1 | FileCheck %s --check-prefix=DONE
// RUN: buddy-opt %s --buddy-pipeline="stop-after=graph" | buddy-opt - --buddy-pipeline="start-from=kernel" | FileCheck %s --check-prefix=RESUMED

// ORDER: error: start-from=llvm comes after stop-after=graph
// RAW: error: phase 'kernel' cannot start from a module that no phase has run on; start-from=import takes it
// SKIPS: error: phase 'llvm' cannot start from a module after phase 'graph'; start-from=kernel takes it
// DONE: error: phase 'llvm' cannot start from a module after phase 'llvm'; it is ready for buddy-translate or buddy-llc
// RESUMED: module attributes {buddy.phase = "llvm"
// CHECK: buddy-pipeline: error: unknown phase 'bogus'; phases: import, graph, kernel, llvm
// START: unknown phase 'graf'
module {}
