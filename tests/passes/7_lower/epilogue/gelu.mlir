// RUN: msc opt --passes=epilogue --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>):
    %0 = "msc.gemm"(%x, %w, %b) : (tensor<2x3x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
    %1 = "msc.gelu"(%0) {form = "tanh"} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    %2 = "msc.gemm"(%x, %w) : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
    %3 = "msc.gelu"(%2) {form = "tanh"} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    %4 = "msc.gemm"(%x, %w) : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
    %5 = "msc.gelu"(%4) {form = "erf"} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    "msc.return"(%0, %1, %3, %5) : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>):
    %0:2 = "msc.gemm"(%x, %w, %b) {gelu = true, gives = "aux"} : (tensor<2x3x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>)
    %1 = "msc.gemm"(%x, %w) {gelu = true} : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
    %2 = "msc.gemm"(%x, %w) : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
    %3 = "msc.gelu"(%2) {form = "erf"} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    "msc.return"(%0#1, %0#0, %1, %3) : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
