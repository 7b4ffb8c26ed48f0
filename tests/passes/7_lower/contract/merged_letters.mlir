// RUN: msc opt --passes=contract --check-numerics %s
// Columns of both letters are one dimension of the product; the gradients read the same weights turned, and sum over both at once.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x3x6xf32>, %dy: tensor<2x4x3x6xf32>):
    %0 = "msc.einsum"(%x, %w) {blocks = 2 : i64, equation = "bsd,dcf->bscf"} : (tensor<2x4x8xf32>, tensor<8x3x6xf32>) -> tensor<2x4x3x6xf32>
    %1 = "msc.einsum"(%dy, %w) {equation = "bscf,dcf->bsd"} : (tensor<2x4x3x6xf32>, tensor<8x3x6xf32>) -> tensor<2x4x8xf32>
    %2 = "msc.einsum"(%x, %dy) {equation = "bsd,bscf->dcf"} : (tensor<2x4x8xf32>, tensor<2x4x3x6xf32>) -> tensor<8x3x6xf32>
    "msc.return"(%0, %1, %2) : (tensor<2x4x3x6xf32>, tensor<2x4x8xf32>, tensor<8x3x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x3x6xf32>, %dy: tensor<2x4x3x6xf32>):
    %0 = "msc.reshape"(%x) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    %1 = "msc.reshape"(%w) {shape = [8, 18]} : (tensor<8x3x6xf32>) -> tensor<8x18xf32>
    %2 = "msc.matmul"(%0, %1) {blocks = 2 : i64} : (tensor<8x8xf32>, tensor<8x18xf32>) -> tensor<8x18xf32>
    %3 = "msc.reshape"(%2) {shape = [2, 4, 3, 6]} : (tensor<8x18xf32>) -> tensor<2x4x3x6xf32>
    %4 = "msc.reshape"(%dy) {shape = [8, 18]} : (tensor<2x4x3x6xf32>) -> tensor<8x18xf32>
    %5 = "msc.reshape"(%w) {shape = [8, 18]} : (tensor<8x3x6xf32>) -> tensor<8x18xf32>
    %6 = "msc.matmul"(%4, %5) {transpose_b = true} : (tensor<8x18xf32>, tensor<8x18xf32>) -> tensor<8x8xf32>
    %7 = "msc.reshape"(%6) {shape = [2, 4, 8]} : (tensor<8x8xf32>) -> tensor<2x4x8xf32>
    %8 = "msc.reshape"(%x) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    %9 = "msc.reshape"(%dy) {shape = [8, 18]} : (tensor<2x4x3x6xf32>) -> tensor<8x18xf32>
    %10 = "msc.matmul"(%8, %9) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x18xf32>) -> tensor<8x18xf32>
    %11 = "msc.reshape"(%10) {shape = [8, 3, 6]} : (tensor<8x18xf32>) -> tensor<8x3x6xf32>
    "msc.return"(%3, %7, %11) : (tensor<2x4x3x6xf32>, tensor<2x4x8xf32>, tensor<8x3x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
