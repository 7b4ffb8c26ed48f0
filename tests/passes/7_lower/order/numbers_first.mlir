// RUN: msc opt --passes=order --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %m: tensor<4x4xf32>, %v: tensor<4x4xf32>, %step: tensor<f32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.tanh"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.gemm"(%x, %1) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %3 = "msc.exp"(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.add"(%step, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7:3 = "msc.adam"(%w, %m, %v, %2, %6) {lr = 1.0e-03 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>)
    %8 = "msc.mul"(%4, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%8, %7#0, %7#1, %7#2, %6) : (tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> ()
  }) {loss = 0 : i64,
      results = ["loss", "w", "m", "v", "step"],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %m: tensor<4x4xf32>, %v: tensor<4x4xf32>, %step: tensor<f32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.add"(%step, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %2 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.tanh"(%2) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.gemm"(%x, %3) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %5:3 = "msc.adam"(%w, %m, %v, %4, %1) {lr = 1.0e-03 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>)
    %6 = "msc.exp"(%3) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.reduce_sum"(%6) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %8 = "msc.mul"(%7, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%8, %5#0, %5#1, %5#2, %1) : (tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> ()
  }) {loss = 0 : i64,
      results = ["loss", "w", "m", "v", "step"],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4]} : () -> ()
}
