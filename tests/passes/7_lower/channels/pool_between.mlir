// RUN: msc opt --passes=channels,views --check-numerics %s
// A pool knows no twins: its operand is turned back.  The gradient of a weight is turned back for its update.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x6xbf16>, %v: tensor<4x4x3x3xbf16>, %w: tensor<4x4x3x3xbf16>, %u: tensor<4x4x3x3xf32>, %d: tensor<2x4x3x3xbf16>):
    %0 = "msc.conv2d"(%x, %v) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x6x6xbf16>
    %1 = "msc.relu"(%0) : (tensor<2x4x6x6xbf16>) -> tensor<2x4x6x6xbf16>
    %2 = "msc.conv2d"(%1, %w) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x6x6xbf16>
    %3 = "msc.max_pool"(%2) {kernel = [2, 2], stride = [2, 2]} : (tensor<2x4x6x6xbf16>) -> tensor<2x4x3x3xbf16>
    %4 = "msc.conv2d"(%3, %w) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x3x3xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x3x3xbf16>
    %5 = "msc.mul"(%4, %d) : (tensor<2x4x3x3xbf16>, tensor<2x4x3x3xbf16>) -> tensor<2x4x3x3xbf16>
    %6 = "msc.conv2d_weight_grad"(%3, %5) {any_order = true, kernel = [3, 3], library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x3x3xbf16>, tensor<2x4x3x3xbf16>) -> tensor<4x4x3x3xbf16>
    %7 = "msc.cast"(%6) {dtype = "f32"} : (tensor<4x4x3x3xbf16>) -> tensor<4x4x3x3xf32>
    %8 = "msc.sgd"(%u, %7) {lr = 1.0e-01 : f32} : (tensor<4x4x3x3xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x3x3xf32>
    "msc.return"(%8) : (tensor<4x4x3x3xf32>) -> ()
  }) {results = ["u"],
      sym_name = "train",
      ties = [3]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x6xbf16>, %v: tensor<4x4x3x3xbf16>, %w: tensor<4x4x3x3xbf16>, %u: tensor<4x4x3x3xf32>, %d: tensor<2x4x3x3xbf16>):
    %0 = "msc.transpose"(%x) {perm = [0, 2, 3, 1]} : (tensor<2x4x6x6xbf16>) -> tensor<2x6x6x4xbf16>
    %1 = "msc.transpose"(%0) {perm = [0, 3, 1, 2], view = true} : (tensor<2x6x6x4xbf16>) -> tensor<2x4x6x6xbf16>
    %2 = "msc.transpose"(%v) {perm = [0, 2, 3, 1]} : (tensor<4x4x3x3xbf16>) -> tensor<4x3x3x4xbf16>
    %3 = "msc.transpose"(%2) {perm = [0, 3, 1, 2], view = true} : (tensor<4x3x3x4xbf16>) -> tensor<4x4x3x3xbf16>
    %4 = "msc.conv2d"(%1, %3) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x6x6xbf16>
    %5 = "msc.transpose"(%4) {perm = [0, 2, 3, 1], view = true} : (tensor<2x4x6x6xbf16>) -> tensor<2x6x6x4xbf16>
    %6 = "msc.relu"(%5) : (tensor<2x6x6x4xbf16>) -> tensor<2x6x6x4xbf16>
    %7 = "msc.transpose"(%6) {perm = [0, 3, 1, 2], view = true} : (tensor<2x6x6x4xbf16>) -> tensor<2x4x6x6xbf16>
    %8 = "msc.transpose"(%w) {perm = [0, 2, 3, 1]} : (tensor<4x4x3x3xbf16>) -> tensor<4x3x3x4xbf16>
    %9 = "msc.transpose"(%8) {perm = [0, 3, 1, 2], view = true} : (tensor<4x3x3x4xbf16>) -> tensor<4x4x3x3xbf16>
    %10 = "msc.conv2d"(%7, %9) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x6x6xbf16>
    %11 = "msc.transpose"(%10) {perm = [0, 2, 3, 1], view = true} : (tensor<2x4x6x6xbf16>) -> tensor<2x6x6x4xbf16>
    %12 = "msc.transpose"(%11) {perm = [0, 3, 1, 2]} : (tensor<2x6x6x4xbf16>) -> tensor<2x4x6x6xbf16>
    %13 = "msc.max_pool"(%12) {kernel = [2, 2], stride = [2, 2]} : (tensor<2x4x6x6xbf16>) -> tensor<2x4x3x3xbf16>
    %14 = "msc.transpose"(%13) {perm = [0, 2, 3, 1]} : (tensor<2x4x3x3xbf16>) -> tensor<2x3x3x4xbf16>
    %15 = "msc.transpose"(%14) {perm = [0, 3, 1, 2], view = true} : (tensor<2x3x3x4xbf16>) -> tensor<2x4x3x3xbf16>
    %16 = "msc.conv2d"(%15, %9) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x3x3xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x3x3xbf16>
    %17 = "msc.transpose"(%16) {perm = [0, 2, 3, 1], view = true} : (tensor<2x4x3x3xbf16>) -> tensor<2x3x3x4xbf16>
    %18 = "msc.transpose"(%d) {perm = [0, 2, 3, 1]} : (tensor<2x4x3x3xbf16>) -> tensor<2x3x3x4xbf16>
    %19 = "msc.mul"(%17, %18) : (tensor<2x3x3x4xbf16>, tensor<2x3x3x4xbf16>) -> tensor<2x3x3x4xbf16>
    %20 = "msc.transpose"(%19) {perm = [0, 3, 1, 2], view = true} : (tensor<2x3x3x4xbf16>) -> tensor<2x4x3x3xbf16>
    %21 = "msc.conv2d_weight_grad"(%15, %20) {any_order = true, kernel = [3, 3], library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x3x3xbf16>, tensor<2x4x3x3xbf16>) -> tensor<4x4x3x3xbf16>
    %22 = "msc.transpose"(%21) {perm = [0, 2, 3, 1], view = true} : (tensor<4x4x3x3xbf16>) -> tensor<4x3x3x4xbf16>
    %23 = "msc.cast"(%22) {dtype = "f32"} : (tensor<4x3x3x4xbf16>) -> tensor<4x3x3x4xf32>
    %24 = "msc.transpose"(%23) {perm = [0, 3, 1, 2]} : (tensor<4x3x3x4xf32>) -> tensor<4x4x3x3xf32>
    %25 = "msc.sgd"(%u, %24) {lr = 1.0e-01 : f32} : (tensor<4x4x3x3xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x3x3xf32>
    "msc.return"(%25) : (tensor<4x4x3x3xf32>) -> ()
  }) {results = ["u"],
      sym_name = "train",
      ties = [3]} : () -> ()
}
