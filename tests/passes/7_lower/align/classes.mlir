// RUN: msc opt --passes=align --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xbf16>, %w: tensor<8x1027xbf16>, %b: tensor<1027xbf16>, %labels: tensor<4xi32>):
    %0 = "msc.gemm"(%x, %w, %b) : (tensor<4x8xbf16>, tensor<8x1027xbf16>, tensor<1027xbf16>) -> tensor<4x1027xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<4x1027xbf16>) -> tensor<4x1027xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %labels) : (tensor<4x1027xf32>, tensor<4xi32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %labels, %3) : (tensor<4x1027xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x1027xf32>
    %5 = "msc.cast"(%4) {dtype = "bf16"} : (tensor<4x1027xf32>) -> tensor<4x1027xbf16>
    %6 = "msc.gemm"(%5, %w) {transpose_b = true} : (tensor<4x1027xbf16>, tensor<8x1027xbf16>) -> tensor<4x8xbf16>
    %7:2 = "msc.gemm"(%x, %5) {dtype = "f32", gives = "sum_b", transpose_a = true} : (tensor<4x8xbf16>, tensor<4x1027xbf16>) -> (tensor<8x1027xf32>, tensor<1027xf32>)
    "msc.return"(%2, %6, %7#0, %7#1) : (tensor<f32>, tensor<4x8xbf16>, tensor<8x1027xf32>, tensor<1027xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xbf16>, %w: tensor<8x1027xbf16>, %b: tensor<1027xbf16>, %labels: tensor<4xi32>):
    %0 = "msc.pad"(%w) {high = [0, 61], low = [0, 0]} : (tensor<8x1027xbf16>) -> tensor<8x1088xbf16>
    %1 = "msc.pad"(%b) {high = [61], low = [0]} : (tensor<1027xbf16>) -> tensor<1088xbf16>
    %2 = "msc.gemm"(%x, %0, %1) : (tensor<4x8xbf16>, tensor<8x1088xbf16>, tensor<1088xbf16>) -> tensor<4x1088xbf16>
    %3 = "msc.cast"(%2) {dtype = "f32"} : (tensor<4x1088xbf16>) -> tensor<4x1088xf32>
    %4 = "msc.softmax_cross_entropy"(%3, %labels) {classes = 1027 : i64, whole = 1027 : i64} : (tensor<4x1088xf32>, tensor<4xi32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.softmax_cross_entropy_grad"(%3, %labels, %5) {classes = 1027 : i64, whole = 1027 : i64} : (tensor<4x1088xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x1088xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<4x1088xf32>) -> tensor<4x1088xbf16>
    %8 = "msc.gemm"(%7, %0) {transpose_b = true} : (tensor<4x1088xbf16>, tensor<8x1088xbf16>) -> tensor<4x8xbf16>
    %9:2 = "msc.gemm"(%x, %7) {dtype = "f32", gives = "sum_b", transpose_a = true} : (tensor<4x8xbf16>, tensor<4x1088xbf16>) -> (tensor<8x1088xf32>, tensor<1088xf32>)
    %10 = "msc.slice"(%9#1) {limit = [1027], start = [0]} : (tensor<1088xf32>) -> tensor<1027xf32>
    %11 = "msc.slice"(%9#0) {limit = [8, 1027], start = [0, 0]} : (tensor<8x1088xf32>) -> tensor<8x1027xf32>
    "msc.return"(%4, %8, %11, %10) : (tensor<f32>, tensor<4x8xbf16>, tensor<8x1027xf32>, tensor<1027xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
