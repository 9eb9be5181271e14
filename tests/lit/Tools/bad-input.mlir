// What buddy-llc is asked for and does not know is an error, not a warning, and
// no file is left behind or replaced.

// RUN: rm -rf %t && mkdir %t
// RUN: not buddy-llc %s -o %t/a.o -mcpu=pdp11 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not buddy-llc %s -o %t/a.o -mtriple=riscv64-linux-gnu -mcpu=znver4 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not buddy-llc %s -o %t/a.o -mattr=+warp 2>&1 | FileCheck %s --check-prefix=FEATURE
// RUN: not buddy-llc %s -o %t/a.o -mattr=avx2 2>&1 | FileCheck %s --check-prefix=SIGN
// RUN: not buddy-llc %s -o %t/a.o -mtriple=pdp11 2>&1 | FileCheck %s --check-prefix=TRIPLE
// RUN: not buddy-llc %s -o %t --shared 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: mkfifo %t/pipe
// RUN: not buddy-llc %s -o %t/pipe --shared 2>&1 | FileCheck %s --check-prefix=PIPE
// RUN: test -p %t/pipe
// RUN: ls %t | count 1

// CPU: buddy-llc: error: unknown CPU 'pdp11' for
// OTHER: unknown CPU 'znver4' for riscv64
// FEATURE: unknown feature '+warp' for
// SIGN: unknown feature 'avx2' for {{.*}} expected +NAME or -NAME
// TRIPLE: error: {{.*}}pdp11
// FOLDER: exists and is not a regular file
// PIPE: pipe' exists and is not a regular file

llvm.func @f() {
  llvm.return
}
