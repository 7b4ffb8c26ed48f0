// RUN: msc opt --passes=epilogue --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>, %r: tensor<6x8xf32>):
    %0 = "msc.gemm"(%x, %w, %b) : (tensor<6x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
    %1 = "msc.add"(%r, %0) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %2 = "msc.gemm"(%x, %w) : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %3 = "msc.gemm"(%x, %w) : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %4 = "msc.add"(%2, %3) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %5 = "msc.gemm"(%x, %w) : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %6 = "msc.tanh"(%r) : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %7 = "msc.add"(%5, %6) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    "msc.return"(%1, %4, %7) : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>, %r: tensor<6x8xf32>):
    %0 = "msc.gemm"(%x, %w, %b, %r) {takes = "bias add"} : (tensor<6x4xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %1 = "msc.gemm"(%x, %w) : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %2 = "msc.gemm"(%x, %w, %1) {takes = "add"} : (tensor<6x4xf32>, tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %3 = "msc.gemm"(%x, %w) : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %4 = "msc.tanh"(%r) : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %5 = "msc.add"(%3, %4) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    "msc.return"(%0, %2, %5) : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
