// RUN: not buddy-opt %s --buddy-pipeline="stop-after=bogus" 2>&1 | FileCheck %s --implicit-check-not="LLVM ERROR"
// RUN: not buddy-opt %s --buddy-pipeline="start-from=graf" 2>&1 | FileCheck %s --check-prefix=START

// CHECK: buddy-pipeline: error: unknown phase 'bogus'; phases: import, graph, kernel, llvm
// START: unknown phase 'graf'
module {}
