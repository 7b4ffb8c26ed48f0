// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<6x8xf32>, %u: tensor<3x8x4xf32>, %v: tensor<3x8x6xf32>, %w: tensor<8x6xf32>, %z: tensor<8x3x4xf32>):
    %0 = "msc.transpose"(%y) {perm = [1, 0]} : (tensor<6x8xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%x, %0) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %2 = "msc.transpose"(%x) {perm = [1, 0]} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %3 = "msc.matmul"(%2, %0) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %4 = "msc.transpose"(%u) {perm = [0, 2, 1]} : (tensor<3x8x4xf32>) -> tensor<3x4x8xf32>
    %5 = "msc.batch_matmul"(%4, %v) : (tensor<3x4x8xf32>, tensor<3x8x6xf32>) -> tensor<3x4x6xf32>
    %6 = "msc.transpose"(%z) {perm = [1, 2, 0]} : (tensor<8x3x4xf32>) -> tensor<3x4x8xf32>
    %7 = "msc.batch_matmul"(%6, %v) : (tensor<3x4x8xf32>, tensor<3x8x6xf32>) -> tensor<3x4x6xf32>
    %8 = "msc.transpose"(%w) {in_strategy = [[2, 1]], perm = [1, 0]} : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %9 = "msc.matmul"(%x, %8) {transpose_b = true} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    "msc.return"(%1, %3, %5, %7, %9) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<4x6xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<6x8xf32>, %u: tensor<3x8x4xf32>, %v: tensor<3x8x6xf32>, %w: tensor<8x6xf32>, %z: tensor<8x3x4xf32>):
    %0 = "msc.matmul"(%x, %y) {transpose_b = true} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    %1 = "msc.matmul"(%x, %y) {transpose_a = false, transpose_b = true} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    %2 = "msc.batch_matmul"(%u, %v) {transpose_a = true} : (tensor<3x8x4xf32>, tensor<3x8x6xf32>) -> tensor<3x4x6xf32>
    %3 = "msc.transpose"(%z) {perm = [1, 2, 0]} : (tensor<8x3x4xf32>) -> tensor<3x4x8xf32>
    %4 = "msc.batch_matmul"(%3, %v) : (tensor<3x4x8xf32>, tensor<3x8x6xf32>) -> tensor<3x4x6xf32>
    %5 = "msc.transpose"(%w) {in_strategy = [[2, 1]], perm = [1, 0]} : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %6 = "msc.matmul"(%x, %5) {transpose_b = true} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    "msc.return"(%0, %1, %2, %4, %6) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<4x6xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
