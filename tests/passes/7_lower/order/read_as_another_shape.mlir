// RUN: msc opt --passes=order --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %w: tensor<64xf32>):
    %0 = "msc.reshape"(%w) {shape = [8, 8]} : (tensor<64xf32>) -> tensor<8x8xf32>
    %1 = "msc.gemm"(%x, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.gemm"(%x, %1) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.reshape"(%2) {shape = [64]} : (tensor<8x8xf32>) -> tensor<64xf32>
    %4 = "msc.tanh"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = "msc.gemm"(%4, %0) {transpose_b = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("dx")
    %6 = "msc.sgd"(%w, %3) {lr = 5.0e-02 : f64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> loc("w.update")
    "msc.return"(%5, %6) : (tensor<8x8xf32>, tensor<64xf32>) -> ()
  }) {results = ["dx", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %w: tensor<64xf32>):
    %0 = "msc.reshape"(%w) {shape = [8, 8]} : (tensor<64xf32>) -> tensor<8x8xf32>
    %1 = "msc.gemm"(%x, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.gemm"(%x, %1) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.reshape"(%2) {shape = [64]} : (tensor<8x8xf32>) -> tensor<64xf32>
    %4 = "msc.tanh"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = "msc.gemm"(%4, %0) {transpose_b = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("dx")
    %6 = "msc.sgd"(%w, %3) {lr = 5.0e-02 : f64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> loc("w.update")
    "msc.return"(%5, %6) : (tensor<8x8xf32>, tensor<64xf32>) -> ()
  }) {results = ["dx", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
