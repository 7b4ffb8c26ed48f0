// RUN: msc opt --passes=tile --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>, %w: tensor<16x32xf32>, %v: tensor<16x32xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32> loc("left")
    %1 = "msc.gemm"(%x, %v) : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32> loc("right")
    %2 = "msc.add"(%0, %1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("sum")
    "msc.return"(%2) : (tensor<32x32xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>, %w: tensor<16x32xf32>, %v: tensor<16x32xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32> loc("left")
    %1 = "msc.gemm"(%x, %v) {tile = 8 : i64} : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32> loc("right")
    %2 = "msc.add"(%0, %1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("sum")
    "msc.return"(%2) : (tensor<32x32xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
