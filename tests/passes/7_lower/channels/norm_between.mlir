// RUN: msc opt --passes=channels,views --check-numerics %s
// Copies of the input and the weights; a mean over the batch, small operands and what is spread stay what they are.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x6xbf16>, %v: tensor<8x4x3x3xbf16>, %w: tensor<8x8x1x1xbf16>, %b: tensor<8xf32>):
    %0 = "msc.conv2d"(%x, %v) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<8x4x3x3xbf16>) -> tensor<2x8x6x6xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<2x8x6x6xbf16>) -> tensor<2x8x6x6xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 2, 3], keep_dims = true} : (tensor<2x8x6x6xf32>) -> tensor<1x8x1x1xf32>
    %3 = "msc.sub"(%1, %2) : (tensor<2x8x6x6xf32>, tensor<1x8x1x1xf32>) -> tensor<2x8x6x6xf32>
    %4 = "msc.reshape"(%b) {shape = [8, 1, 1]} : (tensor<8xf32>) -> tensor<8x1x1xf32>
    %5 = "msc.mul"(%3, %4) : (tensor<2x8x6x6xf32>, tensor<8x1x1xf32>) -> tensor<2x8x6x6xf32>
    %6 = "msc.reduce_sum"(%5) {dims = [2, 3]} : (tensor<2x8x6x6xf32>) -> tensor<2x8xf32>
    %7 = "msc.reshape"(%6) {shape = [2, 8, 1, 1]} : (tensor<2x8xf32>) -> tensor<2x8x1x1xf32>
    %8 = "msc.broadcast_to"(%7) {shape = [2, 8, 6, 6]} : (tensor<2x8x1x1xf32>) -> tensor<2x8x6x6xf32>
    %9 = "msc.add"(%5, %8) : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
    %10 = "msc.cast"(%9) {dtype = "bf16"} : (tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xbf16>
    %11 = "msc.conv2d"(%10, %w) {any_order = true, library = true} : (tensor<2x8x6x6xbf16>, tensor<8x8x1x1xbf16>) -> tensor<2x8x6x6xbf16>
    %12 = "msc.reduce_max"(%11) {dims = [1, 2, 3]} : (tensor<2x8x6x6xbf16>) -> tensor<2xbf16>
    "msc.return"(%12, %2) : (tensor<2xbf16>, tensor<1x8x1x1xf32>) -> ()
  }) {results = ["a", "b"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x6xbf16>, %v: tensor<8x4x3x3xbf16>, %w: tensor<8x8x1x1xbf16>, %b: tensor<8xf32>):
    %0 = "msc.transpose"(%x) {perm = [0, 2, 3, 1]} : (tensor<2x4x6x6xbf16>) -> tensor<2x6x6x4xbf16>
    %1 = "msc.transpose"(%0) {perm = [0, 3, 1, 2], view = true} : (tensor<2x6x6x4xbf16>) -> tensor<2x4x6x6xbf16>
    %2 = "msc.transpose"(%v) {perm = [0, 2, 3, 1]} : (tensor<8x4x3x3xbf16>) -> tensor<8x3x3x4xbf16>
    %3 = "msc.transpose"(%2) {perm = [0, 3, 1, 2], view = true} : (tensor<8x3x3x4xbf16>) -> tensor<8x4x3x3xbf16>
    %4 = "msc.conv2d"(%1, %3) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<8x4x3x3xbf16>) -> tensor<2x8x6x6xbf16>
    %5 = "msc.transpose"(%4) {perm = [0, 2, 3, 1], view = true} : (tensor<2x8x6x6xbf16>) -> tensor<2x6x6x8xbf16>
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<2x6x6x8xbf16>) -> tensor<2x6x6x8xf32>
    %7 = "msc.reduce_mean"(%6) {dims = [0, 1, 2], keep_dims = true} : (tensor<2x6x6x8xf32>) -> tensor<1x1x1x8xf32>
    %8 = "msc.sub"(%6, %7) : (tensor<2x6x6x8xf32>, tensor<1x1x1x8xf32>) -> tensor<2x6x6x8xf32>
    %9 = "msc.reshape"(%b) {shape = [8, 1, 1]} : (tensor<8xf32>) -> tensor<8x1x1xf32>
    %10 = "msc.reshape"(%9) {shape = [1, 8, 1, 1]} : (tensor<8x1x1xf32>) -> tensor<1x8x1x1xf32>
    %11 = "msc.reshape"(%10) {shape = [1, 1, 1, 8]} : (tensor<1x8x1x1xf32>) -> tensor<1x1x1x8xf32>
    %12 = "msc.mul"(%8, %11) : (tensor<2x6x6x8xf32>, tensor<1x1x1x8xf32>) -> tensor<2x6x6x8xf32>
    %13 = "msc.reduce_sum"(%12) {dims = [1, 2]} : (tensor<2x6x6x8xf32>) -> tensor<2x8xf32>
    %14 = "msc.reshape"(%13) {shape = [2, 8, 1, 1]} : (tensor<2x8xf32>) -> tensor<2x8x1x1xf32>
    %15 = "msc.reshape"(%14) {shape = [2, 1, 1, 8]} : (tensor<2x8x1x1xf32>) -> tensor<2x1x1x8xf32>
    %16 = "msc.broadcast_to"(%15) {shape = [2, 6, 6, 8]} : (tensor<2x1x1x8xf32>) -> tensor<2x6x6x8xf32>
    %17 = "msc.add"(%12, %16) : (tensor<2x6x6x8xf32>, tensor<2x6x6x8xf32>) -> tensor<2x6x6x8xf32>
    %18 = "msc.cast"(%17) {dtype = "bf16"} : (tensor<2x6x6x8xf32>) -> tensor<2x6x6x8xbf16>
    %19 = "msc.transpose"(%18) {perm = [0, 3, 1, 2], view = true} : (tensor<2x6x6x8xbf16>) -> tensor<2x8x6x6xbf16>
    %20 = "msc.reshape"(%w) {shape = [8, 1, 1, 8]} : (tensor<8x8x1x1xbf16>) -> tensor<8x1x1x8xbf16>
    %21 = "msc.transpose"(%20) {perm = [0, 3, 1, 2], view = true} : (tensor<8x1x1x8xbf16>) -> tensor<8x8x1x1xbf16>
    %22 = "msc.conv2d"(%19, %21) {any_order = true, library = true} : (tensor<2x8x6x6xbf16>, tensor<8x8x1x1xbf16>) -> tensor<2x8x6x6xbf16>
    %23 = "msc.transpose"(%22) {perm = [0, 2, 3, 1], view = true} : (tensor<2x8x6x6xbf16>) -> tensor<2x6x6x8xbf16>
    %24 = "msc.reduce_max"(%23) {dims = [1, 2, 3]} : (tensor<2x6x6x8xbf16>) -> tensor<2xbf16>
    %25 = "msc.reshape"(%7) {shape = [1, 8, 1, 1]} : (tensor<1x1x1x8xf32>) -> tensor<1x8x1x1xf32>
    "msc.return"(%24, %25) : (tensor<2xbf16>, tensor<1x8x1x1xf32>) -> ()
  }) {results = ["a", "b"],
      sym_name = "forward"} : () -> ()
}
