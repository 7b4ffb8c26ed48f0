// RUN: msc opt --passes=unfold %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x6x4xf32>, %w: tensor<5x3x3x3xf32>, %v: tensor<4x5x1x1xf32>, %dy: tensor<2x5x3x4xf32>, %d: tensor<3x1x3x3xf32>):
    %0 = "msc.conv2d"(%x, %w) {padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x3x6x4xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x3x4xf32> loc("conv")
    %1 = "msc.conv2d"(%0, %v) : (tensor<2x5x3x4xf32>, tensor<4x5x1x1xf32>) -> tensor<2x4x3x4xf32>
    %2 = "msc.conv2d_transpose"(%dy, %w) {padding = [1, 0, 1, 1], size = [6, 4], stride = [2, 1]} : (tensor<2x5x3x4xf32>, tensor<5x3x3x3xf32>) -> tensor<2x3x6x4xf32>
    %3 = "msc.conv2d_weight_grad"(%x, %dy) {kernel = [3, 3], padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x3x6x4xf32>, tensor<2x5x3x4xf32>) -> tensor<5x3x3x3xf32>
    %4 = "msc.conv2d_weight_grad"(%0, %1) {kernel = [1, 1]} : (tensor<2x5x3x4xf32>, tensor<2x4x3x4xf32>) -> tensor<4x5x1x1xf32>
    %5 = "msc.conv2d"(%x, %d) {groups = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<3x1x3x3xf32>) -> tensor<2x3x4x2xf32>
    "msc.return"(%1, %2, %3, %4, %5) : (tensor<2x4x3x4xf32>, tensor<2x3x6x4xf32>, tensor<5x3x3x3xf32>, tensor<4x5x1x1xf32>, tensor<2x3x4x2xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x6x4xf32>, %w: tensor<5x3x3x3xf32>, %v: tensor<4x5x1x1xf32>, %dy: tensor<2x5x3x4xf32>, %d: tensor<3x1x3x3xf32>):
    %0 = "msc.conv2d"(%x, %w) {library = true, padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x3x6x4xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x3x4xf32> loc("conv")
    %1 = "msc.reshape"(%0) {shape = [2, 5, 12]} : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
    %2 = "msc.reshape"(%v) {shape = [4, 5]} : (tensor<4x5x1x1xf32>) -> tensor<4x5xf32>
    %3 = "msc.batch_matmul"(%2, %1) : (tensor<4x5xf32>, tensor<2x5x12xf32>) -> tensor<2x4x12xf32>
    %4 = "msc.reshape"(%3) {shape = [2, 4, 3, 4]} : (tensor<2x4x12xf32>) -> tensor<2x4x3x4xf32>
    %5 = "msc.reshape"(%dy) {shape = [2, 5, 12]} : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
    %6 = "msc.reshape"(%w) {shape = [5, 27]} : (tensor<5x3x3x3xf32>) -> tensor<5x27xf32>
    %7 = "msc.batch_matmul"(%6, %5) {transpose_a = true} : (tensor<5x27xf32>, tensor<2x5x12xf32>) -> tensor<2x27x12xf32>
    %8 = "msc.reshape"(%7) {shape = [2, 3, 3, 3, 3, 4]} : (tensor<2x27x12xf32>) -> tensor<2x3x3x3x3x4xf32>
    %9 = "msc.fold"(%8) {padding = [1, 0, 1, 1], size = [6, 4], stride = [2, 1]} : (tensor<2x3x3x3x3x4xf32>) -> tensor<2x3x6x4xf32>
    %10 = "msc.unfold"(%x) {images_last = true, kernel = [3, 3], padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x3x6x4xf32>) -> tensor<3x3x3x2x3x4xf32>
    %11 = "msc.reshape"(%10) {shape = [27, 24]} : (tensor<3x3x3x2x3x4xf32>) -> tensor<27x24xf32>
    %12 = "msc.reshape"(%dy) {shape = [2, 5, 12]} : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
    %13 = "msc.transpose"(%12) {perm = [1, 0, 2]} : (tensor<2x5x12xf32>) -> tensor<5x2x12xf32>
    %14 = "msc.reshape"(%13) {shape = [5, 24]} : (tensor<5x2x12xf32>) -> tensor<5x24xf32>
    %15 = "msc.matmul"(%14, %11) {transpose_b = true} : (tensor<5x24xf32>, tensor<27x24xf32>) -> tensor<5x27xf32>
    %16 = "msc.reshape"(%15) {shape = [5, 3, 3, 3]} : (tensor<5x27xf32>) -> tensor<5x3x3x3xf32>
    %17 = "msc.reshape"(%0) {shape = [2, 5, 12]} : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
    %18 = "msc.transpose"(%17) {perm = [1, 0, 2]} : (tensor<2x5x12xf32>) -> tensor<5x2x12xf32>
    %19 = "msc.reshape"(%18) {shape = [5, 24]} : (tensor<5x2x12xf32>) -> tensor<5x24xf32>
    %20 = "msc.reshape"(%4) {shape = [2, 4, 12]} : (tensor<2x4x3x4xf32>) -> tensor<2x4x12xf32>
    %21 = "msc.transpose"(%20) {perm = [1, 0, 2]} : (tensor<2x4x12xf32>) -> tensor<4x2x12xf32>
    %22 = "msc.reshape"(%21) {shape = [4, 24]} : (tensor<4x2x12xf32>) -> tensor<4x24xf32>
    %23 = "msc.matmul"(%22, %19) {transpose_b = true} : (tensor<4x24xf32>, tensor<5x24xf32>) -> tensor<4x5xf32>
    %24 = "msc.reshape"(%23) {shape = [4, 5, 1, 1]} : (tensor<4x5xf32>) -> tensor<4x5x1x1xf32>
    %25 = "msc.conv2d"(%x, %d) {groups = 3 : i64, library = true} : (tensor<2x3x6x4xf32>, tensor<3x1x3x3xf32>) -> tensor<2x3x4x2xf32>
    "msc.return"(%4, %9, %16, %24, %25) : (tensor<2x4x3x4xf32>, tensor<2x3x6x4xf32>, tensor<5x3x3x3xf32>, tensor<4x5x1x1xf32>, tensor<2x3x4x2xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
