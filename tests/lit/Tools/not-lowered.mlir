// What no pass has lowered is an error that says what does, and leaves no file.

// RUN: rm -f %t.so
// RUN: not buddy-llc %s --shared -o %t.so 2>&1 | FileCheck %s --implicit-check-not=Interface
// RUN: not ls %t.so

// CHECK: buddy-llc: error: {{.*}}not-lowered.mlir":9:1): 'func.func' is not of the LLVM dialect; buddy-opt --buddy-pipeline lowers a module to it

func.func @f() {
  return
}
