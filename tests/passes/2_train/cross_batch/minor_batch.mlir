// RUN: msc opt --passes=cross_batch --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2xf32>, %w: tensor<3xf32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32> loc("x")
    %1 = "msc.reshape"(%0) {shape = [12, 2]} : (tensor<3x4x2xf32>) -> tensor<12x2xf32> loc("x")
    %2 = "msc.reduce_max"(%1) {dims = [0], keep_dims = true} : (tensor<12x2xf32>) -> tensor<1x2xf32> loc("largest")
    %3 = "msc.sub"(%1, %2) : (tensor<12x2xf32>, tensor<1x2xf32>) -> tensor<12x2xf32> loc("below")
    %4 = "msc.reshape"(%3) {shape = [3, 4, 2]} : (tensor<12x2xf32>) -> tensor<3x4x2xf32> loc("back")
    %5 = "msc.transpose"(%4) {perm = [1, 0, 2]} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32> loc("back")
    %6 = "msc.reshape"(%5) {shape = [1, 12, 2]} : (tensor<4x3x2xf32>) -> tensor<1x12x2xf32> loc("channels")
    %7 = "msc.tile"(%w) {repeats = [4]} : (tensor<3xf32>) -> tensor<12xf32> loc("channels")
    %8:3 = "msc.batch_norm"(%6, %7, %7, %7, %7) : (tensor<1x12x2xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<1x12x2xf32>, tensor<12xf32>, tensor<12xf32>) loc("channels")
    %9 = "msc.reduce_mean"(%8#0) {dims = [0, 1, 2]} : (tensor<1x12x2xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%9) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2xf32>, %w: tensor<3xf32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32> loc("x")
    %1 = "msc.reshape"(%0) {shape = [12, 2]} : (tensor<3x4x2xf32>) -> tensor<12x2xf32> loc("x")
    %2 = "msc.reshape"(%1) {shape = [3, 2, 2, 2]} : (tensor<12x2xf32>) -> tensor<3x2x2x2xf32> loc("largest")
    %3 = "msc.transpose"(%2) {perm = [1, 0, 2, 3]} : (tensor<3x2x2x2xf32>) -> tensor<2x3x2x2xf32> loc("largest")
    %4 = "msc.reshape"(%3) {shape = [2, 6, 2]} : (tensor<2x3x2x2xf32>) -> tensor<2x6x2xf32> loc("largest")
    %5 = "msc.reduce_max"(%4) {dims = [1], keep_dims = true} : (tensor<2x6x2xf32>) -> tensor<2x1x2xf32> loc("largest")
    %6 = "msc.reshape"(%1) {shape = [3, 2, 2, 2]} : (tensor<12x2xf32>) -> tensor<3x2x2x2xf32> loc("below")
    %7 = "msc.transpose"(%6) {perm = [1, 0, 2, 3]} : (tensor<3x2x2x2xf32>) -> tensor<2x3x2x2xf32> loc("below")
    %8 = "msc.reshape"(%7) {shape = [2, 6, 2]} : (tensor<2x3x2x2xf32>) -> tensor<2x6x2xf32> loc("below")
    %9 = "msc.sub"(%8, %5) : (tensor<2x6x2xf32>, tensor<2x1x2xf32>) -> tensor<2x6x2xf32> loc("below")
    %10 = "msc.reshape"(%9) {shape = [2, 3, 2, 2]} : (tensor<2x6x2xf32>) -> tensor<2x3x2x2xf32> loc("below")
    %11 = "msc.transpose"(%10) {perm = [1, 0, 2, 3]} : (tensor<2x3x2x2xf32>) -> tensor<3x2x2x2xf32> loc("below")
    %12 = "msc.reshape"(%11) {shape = [12, 2]} : (tensor<3x2x2x2xf32>) -> tensor<12x2xf32> loc("below")
    %13 = "msc.reshape"(%12) {shape = [3, 4, 2]} : (tensor<12x2xf32>) -> tensor<3x4x2xf32> loc("back")
    %14 = "msc.transpose"(%13) {perm = [1, 0, 2]} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32> loc("back")
    %15 = "msc.reshape"(%14) {shape = [1, 12, 2]} : (tensor<4x3x2xf32>) -> tensor<1x12x2xf32> loc("channels")
    %16 = "msc.tile"(%w) {repeats = [4]} : (tensor<3xf32>) -> tensor<12xf32> loc("channels")
    %17:3 = "msc.batch_norm"(%15, %16, %16, %16, %16) : (tensor<1x12x2xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<1x12x2xf32>, tensor<12xf32>, tensor<12xf32>) loc("channels")
    %18 = "msc.reduce_mean"(%17#0) {dims = [0, 1, 2]} : (tensor<1x12x2xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%18) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      sym_name = "forward"} : () -> ()
}
