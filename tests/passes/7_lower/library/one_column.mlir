// RUN: msc opt --passes=library --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x16x4xf32>, %w: tensor<4x1xf32>, %dy: tensor<32x1xf32>, %a: tensor<32x20xf32>, %few: tensor<3x4xf32>, %half: tensor<16x4xbf16>, %v: tensor<4x1xbf16>):
    %0 = "msc.batch_matmul"(%x, %w) : (tensor<2x16x4xf32>, tensor<4x1xf32>) -> tensor<2x16x1xf32> loc("the result has two dimensions of rows")
    %1 = "msc.matmul"(%a, %dy) {transpose_a = true} : (tensor<32x20xf32>, tensor<32x1xf32>) -> tensor<20x1xf32> loc("transposed already")
    %2 = "msc.matmul"(%few, %w) : (tensor<3x4xf32>, tensor<4x1xf32>) -> tensor<3x1xf32> loc("few rows")
    %3 = "msc.matmul"(%half, %v) : (tensor<16x4xbf16>, tensor<4x1xbf16>) -> tensor<16x1xbf16> loc("packed in any case")
    "msc.return"(%0, %1, %2, %3) : (tensor<2x16x1xf32>, tensor<20x1xf32>, tensor<3x1xf32>, tensor<16x1xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x16x4xf32>, %w: tensor<4x1xf32>, %dy: tensor<32x1xf32>, %a: tensor<32x20xf32>, %few: tensor<3x4xf32>, %half: tensor<16x4xbf16>, %v: tensor<4x1xbf16>):
    %0 = "msc.reshape"(%w) {shape = [1, 4]} : (tensor<4x1xf32>) -> tensor<1x4xf32>
    %1 = "msc.reshape"(%x) {shape = [32, 4]} : (tensor<2x16x4xf32>) -> tensor<32x4xf32>
    %2 = "msc.gemm"(%0, %1) {generated = true, transpose_b = true} : (tensor<1x4xf32>, tensor<32x4xf32>) -> tensor<1x32xf32> loc("the result has two dimensions of rows")
    %3 = "msc.reshape"(%2) {shape = [2, 16, 1]} : (tensor<1x32xf32>) -> tensor<2x16x1xf32>
    %4 = "msc.reshape"(%dy) {shape = [1, 32]} : (tensor<32x1xf32>) -> tensor<1x32xf32>
    %5 = "msc.gemm"(%4, %a) {generated = true} : (tensor<1x32xf32>, tensor<32x20xf32>) -> tensor<1x20xf32> loc("transposed already")
    %6 = "msc.reshape"(%5) {shape = [20, 1]} : (tensor<1x20xf32>) -> tensor<20x1xf32>
    %7 = "msc.gemm"(%few, %w) {generated = true} : (tensor<3x4xf32>, tensor<4x1xf32>) -> tensor<3x1xf32> loc("few rows")
    %8 = "msc.gemm"(%half, %v) {generated = true} : (tensor<16x4xbf16>, tensor<4x1xbf16>) -> tensor<16x1xbf16> loc("packed in any case")
    "msc.return"(%3, %6, %7, %8) : (tensor<2x16x1xf32>, tensor<20x1xf32>, tensor<3x1xf32>, tensor<16x1xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
