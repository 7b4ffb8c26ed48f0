// RUN: msc opt --passes=library --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>, %dy: tensor<2x3x5xf32>, %w: tensor<4x5xf32>):
    %0 = "msc.matmul_weight_grad"(%x, %dy) : (tensor<2x3x4xf32>, tensor<2x3x5xf32>) -> tensor<4x5xf32>
    %1 = "msc.batch_matmul"(%x, %w) : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
    "msc.return"(%0, %1) : (tensor<4x5xf32>, tensor<2x3x5xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>, %dy: tensor<2x3x5xf32>, %w: tensor<4x5xf32>):
    %0 = "msc.reshape"(%x) {shape = [6, 4]} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    %1 = "msc.reshape"(%dy) {shape = [6, 5]} : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
    %2 = "msc.gemm"(%0, %1) {generated = true, transpose_a = true} : (tensor<6x4xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
    %3 = "msc.gemm"(%x, %w) {generated = true} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
    "msc.return"(%2, %3) : (tensor<4x5xf32>, tensor<2x3x5xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
