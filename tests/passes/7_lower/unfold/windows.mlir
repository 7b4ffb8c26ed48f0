// RUN: msc opt --passes=unfold --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x16x6x5xf32>, %w: tensor<4x16x3x3xf32>, %dy: tensor<2x4x6x5xf32>, %v: tensor<4x16x1x1xf32>, %z: tensor<1x2x4x3xf64>, %u: tensor<3x2x2x2xf64>, %t: tensor<16x7x3x3xf32>):
    %0 = "msc.conv2d"(%x, %w) {padding = [1, 1, 1, 1]} : (tensor<2x16x6x5xf32>, tensor<4x16x3x3xf32>) -> tensor<2x4x6x5xf32>
    %1 = "msc.conv2d_transpose"(%dy, %w) {padding = [1, 1, 1, 1], size = [6, 5]} : (tensor<2x4x6x5xf32>, tensor<4x16x3x3xf32>) -> tensor<2x16x6x5xf32>
    %2 = "msc.conv2d_weight_grad"(%x, %dy) {kernel = [3, 3], padding = [1, 1, 1, 1]} : (tensor<2x16x6x5xf32>, tensor<2x4x6x5xf32>) -> tensor<4x16x3x3xf32>
    %3 = "msc.conv2d"(%x, %v) {stride = [2, 2]} : (tensor<2x16x6x5xf32>, tensor<4x16x1x1xf32>) -> tensor<2x4x3x3xf32>
    %4 = "msc.conv2d"(%x, %v) : (tensor<2x16x6x5xf32>, tensor<4x16x1x1xf32>) -> tensor<2x4x6x5xf32>
    %5 = "msc.conv2d"(%x, %w) {padding = [0, 1, 0, 1], stride = [2, 1]} : (tensor<2x16x6x5xf32>, tensor<4x16x3x3xf32>) -> tensor<2x4x3x4xf32>
    %6 = "msc.conv2d"(%z, %u) {padding = [1, 0, 0, 1]} : (tensor<1x2x4x3xf64>, tensor<3x2x2x2xf64>) -> tensor<1x3x4x3xf64>
    %7 = "msc.conv2d_transpose"(%x, %t) {padding = [1, 1, 1, 1], size = [11, 9], stride = [2, 2]} : (tensor<2x16x6x5xf32>, tensor<16x7x3x3xf32>) -> tensor<2x7x11x9xf32>
    "msc.return"(%0, %1, %2, %3, %4, %5, %6, %7) : (tensor<2x4x6x5xf32>, tensor<2x16x6x5xf32>, tensor<4x16x3x3xf32>, tensor<2x4x3x3xf32>, tensor<2x4x6x5xf32>, tensor<2x4x3x4xf32>, tensor<1x3x4x3xf64>, tensor<2x7x11x9xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x16x6x5xf32>, %w: tensor<4x16x3x3xf32>, %dy: tensor<2x4x6x5xf32>, %v: tensor<4x16x1x1xf32>, %z: tensor<1x2x4x3xf64>, %u: tensor<3x2x2x2xf64>, %t: tensor<16x7x3x3xf32>):
    %0 = "msc.conv2d"(%x, %w) {library = true, padding = [1, 1, 1, 1]} : (tensor<2x16x6x5xf32>, tensor<4x16x3x3xf32>) -> tensor<2x4x6x5xf32>
    %1 = "msc.unfold"(%w) {kernel = [3, 3], turned = true} : (tensor<4x16x3x3xf32>) -> tensor<4x16x3x3x1x1xf32>
    %2 = "msc.reshape"(%1) {shape = [4, 16, 9]} : (tensor<4x16x3x3x1x1xf32>) -> tensor<4x16x9xf32>
    %3 = "msc.transpose"(%2) {perm = [1, 0, 2]} : (tensor<4x16x9xf32>) -> tensor<16x4x9xf32>
    %4 = "msc.reshape"(%3) {shape = [16, 4, 3, 3]} : (tensor<16x4x9xf32>) -> tensor<16x4x3x3xf32>
    %5 = "msc.conv2d"(%dy, %4) {dilation = [1, 1], library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x5xf32>, tensor<16x4x3x3xf32>) -> tensor<2x16x6x5xf32>
    %6 = "msc.conv2d_weight_grad"(%x, %dy) {kernel = [3, 3], library = true, padding = [1, 1, 1, 1]} : (tensor<2x16x6x5xf32>, tensor<2x4x6x5xf32>) -> tensor<4x16x3x3xf32>
    %7 = "msc.conv2d"(%x, %v) {library = true, stride = [2, 2]} : (tensor<2x16x6x5xf32>, tensor<4x16x1x1xf32>) -> tensor<2x4x3x3xf32>
    %8 = "msc.reshape"(%x) {shape = [2, 16, 30]} : (tensor<2x16x6x5xf32>) -> tensor<2x16x30xf32>
    %9 = "msc.reshape"(%v) {shape = [4, 16]} : (tensor<4x16x1x1xf32>) -> tensor<4x16xf32>
    %10 = "msc.batch_matmul"(%9, %8) : (tensor<4x16xf32>, tensor<2x16x30xf32>) -> tensor<2x4x30xf32>
    %11 = "msc.reshape"(%10) {shape = [2, 4, 6, 5]} : (tensor<2x4x30xf32>) -> tensor<2x4x6x5xf32>
    %12 = "msc.conv2d"(%x, %w) {library = true, padding = [0, 1, 0, 1], stride = [2, 1]} : (tensor<2x16x6x5xf32>, tensor<4x16x3x3xf32>) -> tensor<2x4x3x4xf32>
    %13 = "msc.unfold"(%z) {kernel = [2, 2], padding = [1, 0, 0, 1]} : (tensor<1x2x4x3xf64>) -> tensor<1x2x2x2x4x3xf64>
    %14 = "msc.reshape"(%13) {shape = [1, 8, 12]} : (tensor<1x2x2x2x4x3xf64>) -> tensor<1x8x12xf64>
    %15 = "msc.reshape"(%u) {shape = [3, 8]} : (tensor<3x2x2x2xf64>) -> tensor<3x8xf64>
    %16 = "msc.batch_matmul"(%15, %14) : (tensor<3x8xf64>, tensor<1x8x12xf64>) -> tensor<1x3x12xf64>
    %17 = "msc.reshape"(%16) {shape = [1, 3, 4, 3]} : (tensor<1x3x12xf64>) -> tensor<1x3x4x3xf64>
    %18 = "msc.conv2d_transpose"(%x, %t) {library = true, padding = [1, 1, 1, 1], size = [11, 9], stride = [2, 2]} : (tensor<2x16x6x5xf32>, tensor<16x7x3x3xf32>) -> tensor<2x7x11x9xf32>
    "msc.return"(%0, %5, %6, %7, %11, %12, %17, %18) : (tensor<2x4x6x5xf32>, tensor<2x16x6x5xf32>, tensor<4x16x3x3xf32>, tensor<2x4x3x3xf32>, tensor<2x4x6x5xf32>, tensor<2x4x3x4xf32>, tensor<1x3x4x3xf64>, tensor<2x7x11x9xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
