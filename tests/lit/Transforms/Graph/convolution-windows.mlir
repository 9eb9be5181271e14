// RUN: buddy-opt %s --pass-pipeline="builtin.module(buddy-set-target{target=x86-64-v4},func.func(buddy-lower-convolutions))" | FileCheck %s

// Where vectors may leave lanes out, no columns are stored: the contraction reads
// windows where they lie.

// CHECK-DAG: #[[PLAIN:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3 floordiv 9, d2 floordiv 7 + (d3 mod 9) floordiv 3, d2 mod 7 + d3 mod 3)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d3)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-DAG: #[[STRIDED:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3 floordiv 6, (d2 floordiv 8) * 2 + (d3 mod 6) floordiv 3, (d2 mod 8) * 3 + (d3 mod 3) * 2)>
// CHECK-DAG: #[[LINE:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3 floordiv 5, d2 + d3 mod 5)>

// CHECK-LABEL: func.func @windows
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x9x9xf32>, %[[W:.*]]: tensor<16x8x3x3xf32>, %[[E:.*]]: tensor<2x16x7x7xf32>
// CHECK: %[[F:.*]] = tensor.collapse_shape %[[W]] {{\[\[0\], \[1, 2, 3\]\]}}
// CHECK: %[[S:.*]] = tensor.empty() : tensor<2x16x49xf32>
// CHECK: %[[O:.*]] = linalg.fill {{.*}} outs(%[[S]]
// CHECK: linalg.generic {indexing_maps = [#[[PLAIN]], #[[FILTER]], #[[RESULT]]]
// CHECK-SAME: ins(%[[X]], %[[F]] : tensor<2x8x9x9xf32>, tensor<16x72xf32>) outs(%[[O]]
// CHECK-SAME: buddy.windows = #buddy.windows<image = [7, 7], kernel = [3, 3], strides = [1, 1], dilations = [1, 1]>
// CHECK: tensor.expand_shape {{.*}} : tensor<2x16x49xf32> into tensor<2x16x7x7xf32>
func.func @windows(%x: tensor<2x8x9x9xf32>, %w: tensor<16x8x3x3xf32>, %e: tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32> {
  %zero = arith.constant 0.0 : f32
  %o = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>) outs(%o : tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32>
  return %r : tensor<2x16x7x7xf32>
}

// Strides and dilations that differ, a batch of unknown size.
// CHECK-LABEL: func.func @strided
// CHECK: linalg.generic {indexing_maps = [#[[STRIDED]]
// CHECK-SAME: strides = [2, 3], dilations = [1, 2]
func.func @strided(%x: tensor<?x4x16x26xf32>, %w: tensor<6x4x2x3xf32>, %o: tensor<?x6x8x8xf32>) -> tensor<?x6x8x8xf32> {
  %r = linalg.generic {
      indexing_maps = [affine_map<(n, f, y, x, c, i, j) -> (n, c, y * 2 + i, x * 3 + j * 2)>,
                       affine_map<(n, f, y, x, c, i, j) -> (f, c, i, j)>,
                       affine_map<(n, f, y, x, c, i, j) -> (n, f, y, x)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<?x4x16x26xf32>, tensor<6x4x2x3xf32>) outs(%o : tensor<?x6x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<?x6x8x8xf32>
  return %r : tensor<?x6x8x8xf32>
}

// One dimension: a row of any length is one piece.
// CHECK-LABEL: func.func @line
// CHECK: linalg.generic {indexing_maps = [#[[LINE]]
func.func @line(%x: tensor<2x8x7xf32>, %w: tensor<16x8x5xf32>, %o: tensor<2x16x3xf32>) -> tensor<2x16x3xf32> {
  %r = linalg.conv_1d_ncw_fcw ins(%x, %w : tensor<2x8x7xf32>, tensor<16x8x5xf32>) outs(%o : tensor<2x16x3xf32>) -> tensor<2x16x3xf32>
  return %r : tensor<2x16x3xf32>
}

// Rows of three points would be loaded in six pieces a vector: columns are copied.
// So they are where the size of the image is not known, and where channels are last.
// CHECK-LABEL: func.func @columns
// CHECK: tensor.empty() : tensor<1x8x3x3x3x3xf32>
// CHECK: tensor.empty(%{{.*}}, %{{.*}}) : tensor<1x8x3x3x?x?xf32>
// CHECK: tensor.empty() : tensor<1x7x7x3x3x8xf32>
// CHECK-NOT: buddy.windows
// CHECK: return
func.func @columns(%x: tensor<1x8x5x5xf32>, %w: tensor<16x8x3x3xf32>, %o: tensor<1x16x3x3xf32>,
                   %dx: tensor<1x8x?x?xf32>, %do: tensor<1x16x?x?xf32>,
                   %lx: tensor<1x9x9x8xf32>, %lw: tensor<3x3x8x16xf32>, %lo: tensor<1x7x7x16xf32>)
    -> (tensor<1x16x3x3xf32>, tensor<1x16x?x?xf32>, tensor<1x7x7x16xf32>) {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x5x5xf32>, tensor<16x8x3x3xf32>) outs(%o : tensor<1x16x3x3xf32>) -> tensor<1x16x3x3xf32>
  %d = linalg.conv_2d_nchw_fchw ins(%dx, %w : tensor<1x8x?x?xf32>, tensor<16x8x3x3xf32>) outs(%do : tensor<1x16x?x?xf32>) -> tensor<1x16x?x?xf32>
  %l = linalg.conv_2d_nhwc_hwcf ins(%lx, %lw : tensor<1x9x9x8xf32>, tensor<3x3x8x16xf32>) outs(%lo : tensor<1x7x7x16xf32>) -> tensor<1x7x7x16xf32>
  return %r, %d, %l : tensor<1x16x3x3xf32>, tensor<1x16x?x?xf32>, tensor<1x7x7x16xf32>
}

// Windows of one element side by side are the image itself.
// CHECK-LABEL: func.func @one_by_one
// CHECK: tensor.collapse_shape %{{.*}} : tensor<2x8x7x7xf32> into tensor<2x8x49xf32>
// CHECK-NOT: buddy.windows
// CHECK: return
func.func @one_by_one(%x: tensor<2x8x7x7xf32>, %w: tensor<16x8x1x1xf32>, %o: tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<2x8x7x7xf32>, tensor<16x8x1x1xf32>) outs(%o : tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32>
  return %r : tensor<2x16x7x7xf32>
}
