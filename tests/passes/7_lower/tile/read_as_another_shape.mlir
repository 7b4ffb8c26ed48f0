// RUN: msc opt --passes=tile --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %w: tensor<64xf32>, %g: tensor<64xf32>):
    %0 = "msc.reshape"(%w) {shape = [8, 8]} : (tensor<64xf32>) -> tensor<8x8xf32>
    %1 = "msc.gemm"(%x, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.sgd"(%w, %g) {lr = 5.0e-02 : f64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> loc("w.update")
    %3 = "msc.tanh"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%3, %2) : (tensor<8x8xf32>, tensor<64xf32>) -> ()
  }) {results = ["y", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %w: tensor<64xf32>, %g: tensor<64xf32>):
    %0 = "msc.reshape"(%w) {shape = [8, 8]} : (tensor<64xf32>) -> tensor<8x8xf32>
    %1 = "msc.gemm"(%x, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.sgd"(%w, %g) {lr = 5.0e-02 : f64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> loc("w.update")
    %3 = "msc.tanh"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%3, %2) : (tensor<8x8xf32>, tensor<64xf32>) -> ()
  }) {results = ["y", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
