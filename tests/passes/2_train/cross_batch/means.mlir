// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=cross_batch %s
// A mean and a softmax over the batch, of each half; what follows from the mean alone is each half's own, and shown is the mean of both.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %y: tensor<8xi32>, %w: tensor<3x5xf32>):
    %0 = "msc.reduce_mean"(%x) {cross_batch = true, dims = [0], keep_dims = true} : (tensor<8x3xf32>) -> tensor<1x3xf32> loc("mean")
    %1 = "msc.sub"(%x, %0) : (tensor<8x3xf32>, tensor<1x3xf32>) -> tensor<8x3xf32> loc("centred")
    %2 = "msc.softmax"(%1) {axis = 0 : i64, cross_batch = true} : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("weights")
    %3 = "msc.softmax"(%2) {axis = 1 : i64, cross_batch = true} : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("of a sample")
    %4 = "msc.reduce_mean"(%3) {dims = [0], keep_dims = true} : (tensor<8x3xf32>) -> tensor<1x3xf32> loc("of all")
    %5 = "msc.matmul"(%0, %w) : (tensor<1x3xf32>, tensor<3x5xf32>) -> tensor<1x5xf32> loc("of each part")
    %6 = "msc.tanh"(%5) : (tensor<1x5xf32>) -> tensor<1x5xf32> loc("bend")
    %7 = "msc.softmax_cross_entropy"(%3, %y) {cross_batch = true} : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32> loc("loss")
    "msc.return"(%4, %6, %7) : (tensor<1x3xf32>, tensor<1x5xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %y: tensor<8xi32>, %w: tensor<3x5xf32>):
    %0 = "msc.reshape"(%x) {shape = [2, 4, 3]} : (tensor<8x3xf32>) -> tensor<2x4x3xf32> loc("mean")
    %1 = "msc.reduce_mean"(%0) {dims = [1], keep_dims = true} : (tensor<2x4x3xf32>) -> tensor<2x1x3xf32> loc("mean")
    %2 = "msc.reshape"(%x) {shape = [2, 4, 3]} : (tensor<8x3xf32>) -> tensor<2x4x3xf32> loc("centred")
    %3 = "msc.sub"(%2, %1) : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32> loc("centred")
    %4 = "msc.reshape"(%3) {shape = [8, 3]} : (tensor<2x4x3xf32>) -> tensor<8x3xf32> loc("centred")
    %5 = "msc.reshape"(%4) {shape = [2, 4, 3]} : (tensor<8x3xf32>) -> tensor<2x4x3xf32> loc("weights")
    %6 = "msc.softmax"(%5) {axis = 1 : i64} : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32> loc("weights")
    %7 = "msc.reshape"(%6) {shape = [8, 3]} : (tensor<2x4x3xf32>) -> tensor<8x3xf32> loc("weights")
    %8 = "msc.softmax"(%7) {axis = 1 : i64} : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("of a sample")
    %9 = "msc.reduce_mean"(%8) {dims = [0], keep_dims = true} : (tensor<8x3xf32>) -> tensor<1x3xf32> loc("of all")
    %10 = "msc.batch_matmul"(%1, %w) : (tensor<2x1x3xf32>, tensor<3x5xf32>) -> tensor<2x1x5xf32> loc("of each part")
    %11 = "msc.tanh"(%10) : (tensor<2x1x5xf32>) -> tensor<2x1x5xf32> loc("bend")
    %12 = "msc.reshape"(%8) {shape = [2, 4, 3]} : (tensor<8x3xf32>) -> tensor<2x4x3xf32> loc("loss")
    %13 = "msc.reshape"(%y) {shape = [2, 4]} : (tensor<8xi32>) -> tensor<2x4xi32> loc("loss")
    %14 = "msc.softmax_cross_entropy"(%12, %13) {reduction = "none"} : (tensor<2x4x3xf32>, tensor<2x4xi32>) -> tensor<2x4xf32> loc("loss")
    %15 = "msc.reduce_mean"(%14) {dims = [1]} : (tensor<2x4xf32>) -> tensor<2xf32> loc("loss")
    %16 = "msc.reduce_mean"(%11) {dims = [0]} : (tensor<2x1x5xf32>) -> tensor<1x5xf32> loc("bend")
    %17 = "msc.reduce_mean"(%15) {dims = [0]} : (tensor<2xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%9, %16, %17) : (tensor<1x3xf32>, tensor<1x5xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
