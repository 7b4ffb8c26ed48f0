// RUN: msc opt --passes=crop --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x1x1xf32>, %w: tensor<5x3x3x3xf32>, %z: tensor<2x3x2x2xf32>, %v: tensor<3x1x5x3xf32>, %a: tensor<2x3x1x4xf32>):
    %0 = "msc.conv2d"(%x, %w) {padding = [1, 1, 1, 1]} : (tensor<2x3x1x1xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x1x1xf32> loc("point")
    %1 = "msc.conv2d"(%z, %w) {padding = [1, 1, 1, 1], stride = [2, 2]} : (tensor<2x3x2x2xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x1x1xf32>
    %2 = "msc.conv2d"(%z, %w) {padding = [1, 1, 1, 1]} : (tensor<2x3x2x2xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x2x2xf32>
    %3 = "msc.conv2d"(%z, %v) {dilation = [2, 1], groups = 3 : i64, padding = [4, 4, 1, 1]} : (tensor<2x3x2x2xf32>, tensor<3x1x5x3xf32>) -> tensor<2x3x2x2xf32>
    %4 = "msc.conv2d_transpose"(%0, %w) {padding = [1, 1, 1, 1], size = [1, 1]} : (tensor<2x5x1x1xf32>, tensor<5x3x3x3xf32>) -> tensor<2x3x1x1xf32>
    %5 = "msc.conv2d"(%a, %w) {padding = [1, 1, 1, 1]} : (tensor<2x3x1x4xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x1x4xf32>
    %6 = "msc.conv2d"(%x, %w) {in_strategy = [[2, 1, 1, 1], [1, 1, 1, 1]], padding = [1, 1, 1, 1]} : (tensor<2x3x1x1xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x1x1xf32>
    "msc.return"(%1, %2, %3, %4, %5, %6) : (tensor<2x5x1x1xf32>, tensor<2x5x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x1x1xf32>, tensor<2x5x1x4xf32>, tensor<2x5x1x1xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x1x1xf32>, %w: tensor<5x3x3x3xf32>, %z: tensor<2x3x2x2xf32>, %v: tensor<3x1x5x3xf32>, %a: tensor<2x3x1x4xf32>):
    %0 = "msc.reshape"(%w) {shape = [5, 3, 9]} : (tensor<5x3x3x3xf32>) -> tensor<5x3x9xf32> loc("point")
    %1 = "msc.slice"(%0) {limit = [5, 3, 5], start = [0, 0, 4]} : (tensor<5x3x9xf32>) -> tensor<5x3x1xf32> loc("point")
    %2 = "msc.reshape"(%1) {shape = [5, 3, 1, 1]} : (tensor<5x3x1xf32>) -> tensor<5x3x1x1xf32> loc("point")
    %3 = "msc.conv2d"(%x, %2) {padding = [0, 0, 0, 0]} : (tensor<2x3x1x1xf32>, tensor<5x3x1x1xf32>) -> tensor<2x5x1x1xf32> loc("point")
    %4 = "msc.slice"(%w) {limit = [5, 3, 3, 3], start = [0, 0, 1, 1]} : (tensor<5x3x3x3xf32>) -> tensor<5x3x2x2xf32>
    %5 = "msc.conv2d"(%z, %4) {padding = [0, 0, 0, 0], stride = [2, 2]} : (tensor<2x3x2x2xf32>, tensor<5x3x2x2xf32>) -> tensor<2x5x1x1xf32>
    %6 = "msc.conv2d"(%z, %w) {padding = [1, 1, 1, 1]} : (tensor<2x3x2x2xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x2x2xf32>
    %7 = "msc.slice"(%v) {limit = [3, 1, 3, 3], start = [0, 0, 2, 0]} : (tensor<3x1x5x3xf32>) -> tensor<3x1x1x3xf32>
    %8 = "msc.conv2d"(%z, %7) {dilation = [2, 1], groups = 3 : i64, padding = [0, 0, 1, 1]} : (tensor<2x3x2x2xf32>, tensor<3x1x1x3xf32>) -> tensor<2x3x2x2xf32>
    %9 = "msc.reshape"(%w) {shape = [5, 3, 9]} : (tensor<5x3x3x3xf32>) -> tensor<5x3x9xf32>
    %10 = "msc.slice"(%9) {limit = [5, 3, 5], start = [0, 0, 4]} : (tensor<5x3x9xf32>) -> tensor<5x3x1xf32>
    %11 = "msc.reshape"(%10) {shape = [5, 3, 1, 1]} : (tensor<5x3x1xf32>) -> tensor<5x3x1x1xf32>
    %12 = "msc.conv2d_transpose"(%3, %11) {padding = [0, 0, 0, 0], size = [1, 1]} : (tensor<2x5x1x1xf32>, tensor<5x3x1x1xf32>) -> tensor<2x3x1x1xf32>
    %13 = "msc.slice"(%w) {limit = [5, 3, 2, 3], start = [0, 0, 1, 0]} : (tensor<5x3x3x3xf32>) -> tensor<5x3x1x3xf32>
    %14 = "msc.conv2d"(%a, %13) {padding = [0, 0, 1, 1]} : (tensor<2x3x1x4xf32>, tensor<5x3x1x3xf32>) -> tensor<2x5x1x4xf32>
    %15 = "msc.conv2d"(%x, %w) {in_strategy = [[2, 1, 1, 1], [1, 1, 1, 1]], padding = [1, 1, 1, 1]} : (tensor<2x3x1x1xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x1x1xf32>
    "msc.return"(%5, %6, %8, %12, %14, %15) : (tensor<2x5x1x1xf32>, tensor<2x5x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x1x1xf32>, tensor<2x5x1x4xf32>, tensor<2x5x1x1xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
