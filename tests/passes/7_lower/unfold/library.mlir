// RUN: msc opt --passes=unfold --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x4xf32>, %w: tensor<6x2x3x3xf32>, %dy: tensor<2x6x3x4xf32>):
    %0 = "msc.conv2d"(%x, %w) {groups = 2 : i64, padding = [1, 1, 1, 1], stride = [2, 1]} : (tensor<2x4x6x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x3x4xf32>
    %1 = "msc.conv2d_transpose"(%dy, %w) {groups = 2 : i64, padding = [1, 1, 1, 1], size = [6, 4], stride = [2, 1]} : (tensor<2x6x3x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x4x6x4xf32>
    %2 = "msc.conv2d_weight_grad"(%x, %dy) {groups = 2 : i64, kernel = [3, 3], padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x4x6x4xf32>, tensor<2x6x3x4xf32>) -> tensor<6x2x3x3xf32>
    "msc.return"(%0, %1, %2) : (tensor<2x6x3x4xf32>, tensor<2x4x6x4xf32>, tensor<6x2x3x3xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x4xf32>, %w: tensor<6x2x3x3xf32>, %dy: tensor<2x6x3x4xf32>):
    %0 = "msc.conv2d"(%x, %w) {any_order = true, groups = 2 : i64, library = true, padding = [1, 1, 1, 1], stride = [2, 1]} : (tensor<2x4x6x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x3x4xf32>
    %1 = "msc.conv2d_transpose"(%dy, %w) {any_order = true, groups = 2 : i64, library = true, padding = [1, 1, 1, 1], size = [6, 4], stride = [2, 1]} : (tensor<2x6x3x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x4x6x4xf32>
    %2 = "msc.conv2d_weight_grad"(%x, %dy) {groups = 2 : i64, kernel = [3, 3], padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x4x6x4xf32>, tensor<2x6x3x4xf32>) -> tensor<6x2x3x3xf32>
    "msc.return"(%0, %1, %2) : (tensor<2x6x3x4xf32>, tensor<2x4x6x4xf32>, tensor<6x2x3x3xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
