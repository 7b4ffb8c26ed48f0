// RUN: msc opt --passes=order --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.fused"(%seed, %step) ({
    ^bb0(%1: tensor<i64>, %2: tensor<i64>):
      %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x8xf32>} : () -> tensor<8x8xf32>
      %4 = "msc.dropout"(%3, %1, %2) {rate = 2.5e-01 : f64} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
      "msc.yield"(%4) : (tensor<8x8xf32>) -> ()
    }) : (tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
    %5 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %6 = "msc.mul"(%5, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "msc.gemm"(%x, %6) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %8 = "msc.sgd"(%w, %7) {lr = 5.0e-02 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %9 = "msc.reduce_sum"(%6) {dims = [0, 1]} : (tensor<8x8xf32>) -> tensor<f32>
    "msc.return"(%9, %8) : (tensor<f32>, tensor<4x8xf32>) -> ()
  }) {loss = 0 : i64,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = "msc.fused"(%seed, %step) ({
    ^bb0(%2: tensor<i64>, %3: tensor<i64>):
      %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x8xf32>} : () -> tensor<8x8xf32>
      %5 = "msc.dropout"(%4, %2, %3) {rate = 2.5e-01 : f64} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
      "msc.yield"(%5) : (tensor<8x8xf32>) -> ()
    }) : (tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
    %6 = "msc.mul"(%0, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "msc.gemm"(%x, %6) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %8 = "msc.sgd"(%w, %7) {lr = 5.0e-02 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %9 = "msc.reduce_sum"(%6) {dims = [0, 1]} : (tensor<8x8xf32>) -> tensor<f32>
    "msc.return"(%9, %8) : (tensor<f32>, tensor<4x8xf32>) -> ()
  }) {loss = 0 : i64,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
