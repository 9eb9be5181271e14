// RUN: buddy-opt %s --pass-pipeline="builtin.module(buddy-set-target{target=x86-64-v3},func.func(buddy-lower-convolutions))" | FileCheck %s

// CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2 + d4, d3 + d5)>
// CHECK-DAG: #[[STRIDED:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 * 3 + d3 * 2, d2 * 3 + d4 * 2, d5)>
// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d3)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>

// The windows are copied; filter and result are seen as matrices.
// CHECK-LABEL: func.func @windows
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x9x9xf32>, %[[W:.*]]: tensor<16x8x3x3xf32>, %[[O:.*]]: tensor<2x16x7x7xf32>
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<2x8x3x3x7x7xf32>
// CHECK: %[[COPY:.*]] = linalg.generic {indexing_maps = [#[[WINDOW]]
// CHECK-SAME: ins(%[[X]]
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[COPY]] {{\[\[0\], \[1, 2, 3\], \[4, 5\]\]}}
// CHECK: %[[F:.*]] = tensor.collapse_shape %[[W]] {{\[\[0\], \[1, 2, 3\]\]}}
// CHECK: %[[S:.*]] = tensor.collapse_shape %[[O]]
// CHECK: linalg.generic {indexing_maps = [#[[COLUMNS]], #[[FILTER]], #[[RESULT]]]
// CHECK-SAME: ins(%[[C]], %[[F]] : tensor<2x72x49xf32>, tensor<16x72xf32>) outs(%[[S]]
// CHECK: tensor.expand_shape {{.*}} : tensor<2x16x49xf32> into tensor<2x16x7x7xf32>
func.func @windows(%x: tensor<2x8x9x9xf32>, %w: tensor<16x8x3x3xf32>, %o: tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>) outs(%o : tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32>
  return %r : tensor<2x16x7x7xf32>
}

// Windows of one element: the input is the columns.
// CHECK-LABEL: func.func @one_by_one
// CHECK-NOT: tensor.empty
// CHECK: %[[C:.*]] = tensor.collapse_shape %{{.*}} {{.*}} : tensor<2x8x7x7xf32> into tensor<2x8x49xf32>
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[C]]
func.func @one_by_one(%x: tensor<2x8x7x7xf32>, %w: tensor<16x8x1x1xf32>, %o: tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<2x8x7x7xf32>, tensor<16x8x1x1xf32>) outs(%o : tensor<2x16x7x7xf32>) -> tensor<2x16x7x7xf32>
  return %r : tensor<2x16x7x7xf32>
}

// Channels last, strides and dilations; a row of the columns is a window.
// CHECK-LABEL: func.func @channels_last
// CHECK: tensor.empty() : tensor<1x3x3x3x3x8xf32>
// CHECK: linalg.generic {indexing_maps = [#[[STRIDED]]
// CHECK: ins(%{{.*}} : tensor<1x9x72xf32>, tensor<72x16xf32>) outs(%{{.*}} : tensor<1x9x16xf32>)
func.func @channels_last(%x: tensor<1x11x11x8xf32>, %w: tensor<3x3x8x16xf32>, %o: tensor<1x3x3x16xf32>) -> tensor<1x3x3x16xf32> {
  %r = linalg.conv_2d_nhwc_hwcf {strides = dense<3> : tensor<2xi64>, dilations = dense<2> : tensor<2xi64>}
    ins(%x, %w : tensor<1x11x11x8xf32>, tensor<3x3x8x16xf32>) outs(%o : tensor<1x3x3x16xf32>) -> tensor<1x3x3x16xf32>
  return %r : tensor<1x3x3x16xf32>
}

// An image whose size is known at the call only.
// CHECK-LABEL: func.func @dynamic_image
// CHECK: tensor.empty(%{{.*}}, %{{.*}}) : tensor<1x8x3x3x?x?xf32>
// CHECK: ins(%{{.*}} : tensor<1x72x?xf32>, tensor<16x72xf32>)
// CHECK: tensor.expand_shape {{.*}} output_shape [1, 16, %{{.*}}, %{{.*}}]
func.func @dynamic_image(%x: tensor<1x8x?x?xf32>, %w: tensor<16x8x3x3xf32>, %o: tensor<1x16x?x?xf32>) -> tensor<1x16x?x?xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x?x?xf32>, tensor<16x8x3x3xf32>) outs(%o : tensor<1x16x?x?xf32>) -> tensor<1x16x?x?xf32>
  return %r : tensor<1x16x?x?xf32>
}

// Columns of 61 MB are made a few rows of the image at a time.
// CHECK-LABEL: func.func @large
// CHECK: scf.for
// CHECK: tensor.extract_slice
// CHECK: tensor.empty({{.*}}) : tensor<1x32x3x3x?x230xf32>
// CHECK: tensor.insert_slice
func.func @large(%x: tensor<1x32x232x232xf32>, %w: tensor<16x32x3x3xf32>, %o: tensor<1x16x230x230xf32>) -> tensor<1x16x230x230xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x32x232x232xf32>, tensor<16x32x3x3xf32>) outs(%o : tensor<1x16x230x230xf32>) -> tensor<1x16x230x230xf32>
  return %r : tensor<1x16x230x230xf32>
}

// A batch whose size is known at the call only: one image at a time.
// CHECK-LABEL: func.func @dynamic_batch
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %{{.*}} step %c1
// CHECK: tensor.empty() : tensor<1x8x3x3x7x7xf32>
func.func @dynamic_batch(%x: tensor<?x8x9x9xf32>, %w: tensor<16x8x3x3xf32>, %o: tensor<?x16x7x7xf32>) -> tensor<?x16x7x7xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<?x8x9x9xf32>, tensor<16x8x3x3xf32>) outs(%o : tensor<?x16x7x7xf32>) -> tensor<?x16x7x7xf32>
  return %r : tensor<?x16x7x7xf32>
}

// Left alone: no generator multiplies complex matrices.
// CHECK-LABEL: func.func @complex
// CHECK: linalg.conv_2d_nchw_fchw
func.func @complex(%x: tensor<1x8x9x9xcomplex<f32>>, %w: tensor<16x8x3x3xcomplex<f32>>, %o: tensor<1x16x7x7xcomplex<f32>>) -> tensor<1x16x7x7xcomplex<f32>> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x9x9xcomplex<f32>>, tensor<16x8x3x3xcomplex<f32>>) outs(%o : tensor<1x16x7x7xcomplex<f32>>) -> tensor<1x16x7x7xcomplex<f32>>
  return %r : tensor<1x16x7x7xcomplex<f32>>
}

// Left alone: each channel has windows of its own.
// CHECK-LABEL: func.func @depthwise
// CHECK: linalg.depthwise_conv_2d_nchw_chw
func.func @depthwise(%x: tensor<1x8x9x9xf32>, %w: tensor<8x3x3xf32>, %o: tensor<1x8x7x7xf32>) -> tensor<1x8x7x7xf32> {
  %r = linalg.depthwise_conv_2d_nchw_chw ins(%x, %w : tensor<1x8x9x9xf32>, tensor<8x3x3xf32>) outs(%o : tensor<1x8x7x7xf32>) -> tensor<1x8x7x7xf32>
  return %r : tensor<1x8x7x7xf32>
}

// Left alone: two channels share the windows, too few to copy them for.
// CHECK-LABEL: func.func @few_channels
// CHECK: linalg.conv_2d_nchw_fchw
func.func @few_channels(%x: tensor<1x8x9x9xf32>, %w: tensor<2x8x3x3xf32>, %o: tensor<1x2x7x7xf32>) -> tensor<1x2x7x7xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x9x9xf32>, tensor<2x8x3x3xf32>) outs(%o : tensor<1x2x7x7xf32>) -> tensor<1x2x7x7xf32>
  return %r : tensor<1x2x7x7xf32>
}

// Left alone: a product is no convolution, nor is pooling.
// CHECK-LABEL: func.func @others
// CHECK: linalg.matmul
// CHECK: linalg.pooling_nchw_max
func.func @others(%a: tensor<4x5xf32>, %b: tensor<5x6xf32>, %c: tensor<4x6xf32>, %x: tensor<1x8x9x9xf32>, %w: tensor<3x3xf32>, %o: tensor<1x8x7x7xf32>) -> (tensor<4x6xf32>, tensor<1x8x7x7xf32>) {
  %m = linalg.matmul ins(%a, %b : tensor<4x5xf32>, tensor<5x6xf32>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  %p = linalg.pooling_nchw_max ins(%x, %w : tensor<1x8x9x9xf32>, tensor<3x3xf32>) outs(%o : tensor<1x8x7x7xf32>) -> tensor<1x8x7x7xf32>
  return %m, %p : tensor<4x6xf32>, tensor<1x8x7x7xf32>
}
