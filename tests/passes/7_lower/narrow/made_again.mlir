// RUN: msc opt --passes=narrow --check-numerics %s
// The backward makes x - mean(x), and what relu let through, again of the narrow x, which a product keeps; not what it multiplies.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%a: tensor<8x4xbf16>, %w: tensor<4x4xbf16>, %p: tensor<4x4xf32>):
    %0 = "msc.matmul"(%a, %w) : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0], keep_dims = true} : (tensor<8x4xf32>) -> tensor<1x4xf32>
    %3 = "msc.sub"(%1, %2) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.relu"(%3) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = "msc.matmul"(%4, %p) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.reduce_sum"(%5) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %7 = "msc.matmul"(%5, %p) {transpose_b = true} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.mul"(%7, %3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.matmul"(%4, %8) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %10 = "msc.sgd"(%p, %9) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%6, %10) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "p", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 2]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%a: tensor<8x4xbf16>, %w: tensor<4x4xbf16>, %p: tensor<4x4xf32>):
    %0 = "msc.matmul"(%a, %w) : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0], keep_dims = true} : (tensor<8x4xf32>) -> tensor<1x4xf32>
    %3 = "msc.sub"(%1, %2) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.relu"(%3) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = "msc.matmul"(%4, %p) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.reduce_sum"(%5) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %7 = "msc.matmul"(%5, %p) {transpose_b = true} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %9 = "msc.sub"(%8, %2) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %10 = "msc.mul"(%7, %9) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %11 = "msc.matmul"(%4, %10) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %12 = "msc.sgd"(%p, %11) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%6, %12) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "p", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 2]} : () -> ()
}
