// RUN: msc opt --passes=transpose_weights --check-numerics %s
// Seven products are too few; one that transposes both operands does not count.
module {
  "msc.func"() ({
  ^bb0(%w: tensor<4x4xf32>, %x: tensor<2x4xf32>):
    %0 = "msc.matmul"(%x, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = "msc.matmul"(%0, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = "msc.matmul"(%1, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = "msc.matmul"(%2, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %4 = "msc.matmul"(%3, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %5 = "msc.matmul"(%4, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.matmul"(%5, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %7 = "msc.matmul"(%w, %w) {transpose_a = true, transpose_b = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%6, %7) : (tensor<2x4xf32>, tensor<4x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%w: tensor<4x4xf32>, %x: tensor<2x4xf32>):
    %0 = "msc.matmul"(%x, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = "msc.matmul"(%0, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = "msc.matmul"(%1, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = "msc.matmul"(%2, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %4 = "msc.matmul"(%3, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %5 = "msc.matmul"(%4, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.matmul"(%5, %w) {transpose_b = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %7 = "msc.matmul"(%w, %w) {transpose_a = true, transpose_b = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%6, %7) : (tensor<2x4xf32>, tensor<4x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
