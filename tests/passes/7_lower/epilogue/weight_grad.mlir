// RUN: msc opt --passes=epilogue --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xbf16>, %dy: tensor<2x3x8xbf16>, %sum: tensor<8xf32>):
    %0 = "msc.reduce_sum"(%dy) {dims = [0, 1]} : (tensor<2x3x8xbf16>) -> tensor<8xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8xbf16>) -> tensor<8xf32>
    %2 = "msc.add"(%sum, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %3 = "msc.reshape"(%x) {shape = [6, 4]} : (tensor<2x3x4xbf16>) -> tensor<6x4xbf16>
    %4 = "msc.reshape"(%dy) {shape = [6, 8]} : (tensor<2x3x8xbf16>) -> tensor<6x8xbf16>
    %5 = "msc.gemm"(%3, %4) {transpose_a = true} : (tensor<6x4xbf16>, tensor<6x8xbf16>) -> tensor<4x8xbf16>
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    "msc.return"(%2, %6) : (tensor<8xf32>, tensor<4x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xbf16>, %dy: tensor<2x3x8xbf16>, %sum: tensor<8xf32>):
    %0 = "msc.reshape"(%x) {shape = [6, 4]} : (tensor<2x3x4xbf16>) -> tensor<6x4xbf16>
    %1 = "msc.reshape"(%dy) {shape = [6, 8]} : (tensor<2x3x8xbf16>) -> tensor<6x8xbf16>
    %2:2 = "msc.gemm"(%0, %1) {dtype = "f32", gives = "sum_b", transpose_a = true} : (tensor<6x4xbf16>, tensor<6x8xbf16>) -> (tensor<4x8xf32>, tensor<8xf32>)
    %3 = "msc.add"(%sum, %2#1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "msc.return"(%3, %2#0) : (tensor<8xf32>, tensor<4x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
