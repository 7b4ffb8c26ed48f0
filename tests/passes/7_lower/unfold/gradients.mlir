// RUN: msc opt --passes=unfold --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%y: tensor<2x4x5x6xf32>, %w: tensor<4x3x3x2xf32>, %wide: tensor<2x4x9x8xf32>):
    %0 = "msc.conv2d_transpose"(%y, %w) {dilation = [2, 1], padding = [1, 2, 0, 1], size = [6, 6]} : (tensor<2x4x5x6xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x6x6xf32>
    %1 = "msc.conv2d_transpose"(%wide, %w) {padding = [3, 2, 0, 1], size = [6, 8]} : (tensor<2x4x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<2x3x6x8xf32>
    "msc.return"(%0, %1) : (tensor<2x3x6x6xf32>, tensor<2x3x6x8xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%y: tensor<2x4x5x6xf32>, %w: tensor<4x3x3x2xf32>, %wide: tensor<2x4x9x8xf32>):
    %0 = "msc.unfold"(%w) {kernel = [3, 2], turned = true} : (tensor<4x3x3x2xf32>) -> tensor<4x3x3x2x1x1xf32>
    %1 = "msc.reshape"(%0) {shape = [4, 3, 6]} : (tensor<4x3x3x2x1x1xf32>) -> tensor<4x3x6xf32>
    %2 = "msc.transpose"(%1) {perm = [1, 0, 2]} : (tensor<4x3x6xf32>) -> tensor<3x4x6xf32>
    %3 = "msc.reshape"(%2) {shape = [3, 4, 3, 2]} : (tensor<3x4x6xf32>) -> tensor<3x4x3x2xf32>
    %4 = "msc.conv2d"(%y, %3) {dilation = [2, 1], library = true, padding = [3, 2, 1, 0]} : (tensor<2x4x5x6xf32>, tensor<3x4x3x2xf32>) -> tensor<2x3x6x6xf32>
    %5 = "msc.reshape"(%wide) {shape = [2, 4, 72]} : (tensor<2x4x9x8xf32>) -> tensor<2x4x72xf32>
    %6 = "msc.reshape"(%w) {shape = [4, 18]} : (tensor<4x3x3x2xf32>) -> tensor<4x18xf32>
    %7 = "msc.batch_matmul"(%6, %5) {transpose_a = true} : (tensor<4x18xf32>, tensor<2x4x72xf32>) -> tensor<2x18x72xf32>
    %8 = "msc.reshape"(%7) {shape = [2, 3, 3, 2, 9, 8]} : (tensor<2x18x72xf32>) -> tensor<2x3x3x2x9x8xf32>
    %9 = "msc.fold"(%8) {padding = [3, 2, 0, 1], size = [6, 8]} : (tensor<2x3x3x2x9x8xf32>) -> tensor<2x3x6x8xf32>
    "msc.return"(%4, %9) : (tensor<2x3x6x6xf32>, tensor<2x3x6x8xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
