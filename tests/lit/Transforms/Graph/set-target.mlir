// RUN: buddy-opt %s --buddy-set-target="target=rv64gcv" | FileCheck %s
// RUN: not buddy-opt %s --buddy-set-target="target=z80" 2>&1 | FileCheck %s --check-prefix=BAD

// CHECK: buddy.target = #buddy.target<name = "rv64gcv", triple = "riscv64-unknown-linux-gnu"
// BAD: unknown target 'z80'; known targets: native,
module {}
