// RUN: msc opt --passes=transpose_weights --check-numerics %s
// Eight steps read the weight transposed: it is transposed once. A product of many rows, and one that reads it as it lies, stay.
module {
  "msc.func"() ({
  ^bb0(%w: tensor<4x4xf32>, %x: tensor<2x4xf32>, %y: tensor<65x4xf32>):
    %0 = "msc.matmul"(%x, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = "msc.matmul"(%0, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = "msc.matmul"(%1, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = "msc.matmul"(%2, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %4 = "msc.matmul"(%3, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %5 = "msc.matmul"(%4, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.matmul"(%5, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %7 = "msc.matmul"(%6, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %8 = "msc.matmul"(%y, %w) {transpose_b = true} : (tensor<65x4xf32>, tensor<4x4xf32>) -> tensor<65x4xf32>
    %9 = "msc.matmul"(%7, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    "msc.return"(%7, %8, %9) : (tensor<2x4xf32>, tensor<65x4xf32>, tensor<2x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%w: tensor<4x4xf32>, %x: tensor<2x4xf32>, %y: tensor<65x4xf32>):
    %0 = "msc.transpose"(%w) {perm = [1, 0]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "msc.matmul"(%x, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = "msc.matmul"(%1, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = "msc.matmul"(%2, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %4 = "msc.matmul"(%3, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %5 = "msc.matmul"(%4, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.matmul"(%5, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %7 = "msc.matmul"(%6, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %8 = "msc.matmul"(%7, %0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %9 = "msc.matmul"(%y, %w) {transpose_b = true} : (tensor<65x4xf32>, tensor<4x4xf32>) -> tensor<65x4xf32>
    %10 = "msc.matmul"(%8, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    "msc.return"(%8, %9, %10) : (tensor<2x4xf32>, tensor<65x4xf32>, tensor<2x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
