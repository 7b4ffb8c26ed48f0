// RUN: msc opt --passes=unfold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2x3xf32>, %w: tensor<5x3x2x3xf32>, %dy: tensor<4x5x1x1xf32>):
    %0 = "msc.conv2d"(%x, %w) : (tensor<4x3x2x3xf32>, tensor<5x3x2x3xf32>) -> tensor<4x5x1x1xf32> loc("conv")
    %1 = "msc.conv2d_transpose"(%dy, %w) {size = [2, 3]} : (tensor<4x5x1x1xf32>, tensor<5x3x2x3xf32>) -> tensor<4x3x2x3xf32>
    %2 = "msc.conv2d_weight_grad"(%x, %dy) {kernel = [2, 3]} : (tensor<4x3x2x3xf32>, tensor<4x5x1x1xf32>) -> tensor<5x3x2x3xf32>
    "msc.return"(%0, %1, %2) : (tensor<4x5x1x1xf32>, tensor<4x3x2x3xf32>, tensor<5x3x2x3xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2x3xf32>, %w: tensor<5x3x2x3xf32>, %dy: tensor<4x5x1x1xf32>):
    %0 = "msc.reshape"(%x) {shape = [4, 18]} : (tensor<4x3x2x3xf32>) -> tensor<4x18xf32> loc("conv")
    %1 = "msc.reshape"(%w) {shape = [5, 18]} : (tensor<5x3x2x3xf32>) -> tensor<5x18xf32> loc("conv")
    %2 = "msc.matmul"(%0, %1) {transpose_b = true} : (tensor<4x18xf32>, tensor<5x18xf32>) -> tensor<4x5xf32> loc("conv")
    %3 = "msc.reshape"(%2) {shape = [4, 5, 1, 1]} : (tensor<4x5xf32>) -> tensor<4x5x1x1xf32> loc("conv")
    %4 = "msc.reshape"(%dy) {shape = [4, 5]} : (tensor<4x5x1x1xf32>) -> tensor<4x5xf32>
    %5 = "msc.reshape"(%w) {shape = [5, 18]} : (tensor<5x3x2x3xf32>) -> tensor<5x18xf32>
    %6 = "msc.matmul"(%4, %5) : (tensor<4x5xf32>, tensor<5x18xf32>) -> tensor<4x18xf32>
    %7 = "msc.reshape"(%6) {shape = [4, 3, 2, 3]} : (tensor<4x18xf32>) -> tensor<4x3x2x3xf32>
    %8 = "msc.reshape"(%x) {shape = [4, 18]} : (tensor<4x3x2x3xf32>) -> tensor<4x18xf32>
    %9 = "msc.reshape"(%dy) {shape = [4, 5]} : (tensor<4x5x1x1xf32>) -> tensor<4x5xf32>
    %10 = "msc.matmul"(%9, %8) {transpose_a = true} : (tensor<4x5xf32>, tensor<4x18xf32>) -> tensor<5x18xf32>
    %11 = "msc.reshape"(%10) {shape = [5, 3, 2, 3]} : (tensor<5x18xf32>) -> tensor<5x3x2x3xf32>
    "msc.return"(%3, %7, %11) : (tensor<4x5x1x1xf32>, tensor<4x3x2x3xf32>, tensor<5x3x2x3xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
