// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %p: tensor<8x4xf32>, %q: tensor<8x4xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.mul"(%0, %x) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.gemm"(%1, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.gemm"(%x, %q) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %4 = "msc.gemm"(%2, %3) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %5 = "msc.sgd"(%p, %1) {lr = 5.0e-02 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.sgd"(%q, %4) {lr = 5.0e-02 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    "msc.return"(%5, %6) : (tensor<8x4xf32>, tensor<8x4xf32>) -> ()
  }) {results = ["p", "q"],
      sym_name = "train",
      ties = [2, 3]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %p: tensor<8x4xf32>, %q: tensor<8x4xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1:2 = "msc.fused"(%0, %x, %p) ({
    ^bb0(%2: tensor<8x4xf32>, %3: tensor<8x4xf32>, %4: tensor<8x4xf32>):
      %5 = "msc.mul"(%2, %3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %6 = "msc.sgd"(%4, %5) {lr = 5.0e-02 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      "msc.yield"(%5, %6) : (tensor<8x4xf32>, tensor<8x4xf32>) -> ()
    }) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
    %7 = "msc.gemm"(%1#0, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.gemm"(%x, %q) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %9 = "msc.gemm"(%7, %8) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %10 = "msc.sgd"(%q, %9) {lr = 5.0e-02 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    "msc.return"(%1#1, %10) : (tensor<8x4xf32>, tensor<8x4xf32>) -> ()
  }) {results = ["p", "q"],
      sym_name = "train",
      ties = [2, 3]} : () -> ()
}
