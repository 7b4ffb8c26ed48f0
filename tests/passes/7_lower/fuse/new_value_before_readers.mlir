// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %a: tensor<8x8xf32>):
    %0 = "msc.exp"(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = "msc.add"(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.gemm"(%x, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.tanh"(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = "msc.mul"(%3, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%4, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> ()
  }) {results = ["y", "a"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %a: tensor<8x8xf32>):
    %0 = "msc.fused"(%a, %x) ({
    ^bb0(%1: tensor<8x8xf32>, %2: tensor<8x8xf32>):
      %3 = "msc.exp"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %4 = "msc.add"(%3, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      "msc.yield"(%4) : (tensor<8x8xf32>) -> ()
    }) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = "msc.gemm"(%x, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = "msc.fused"(%5, %a) ({
    ^bb0(%7: tensor<8x8xf32>, %8: tensor<8x8xf32>):
      %9 = "msc.tanh"(%7) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %10 = "msc.mul"(%9, %8) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      "msc.yield"(%10) : (tensor<8x8xf32>) -> ()
    }) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%6, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> ()
  }) {results = ["y", "a"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
