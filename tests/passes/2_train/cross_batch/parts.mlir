// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=cross_batch %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3x2x2xf32>, %g: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>):
    %0:3 = "msc.batch_norm"(%x, %g, %b, %m, %v) {cross_batch = true} : (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>) loc("norm")
    %1 = "msc.reduce_max"(%0#0) {cross_batch = true, dims = [0], keep_dims = true} : (tensor<8x3x2x2xf32>) -> tensor<1x3x2x2xf32> loc("largest")
    %2 = "msc.sub"(%0#0, %1) : (tensor<8x3x2x2xf32>, tensor<1x3x2x2xf32>) -> tensor<8x3x2x2xf32> loc("below")
    %3 = "msc.relu"(%2) {cross_batch = true} : (tensor<8x3x2x2xf32>) -> tensor<8x3x2x2xf32> loc("alone")
    "msc.return"(%3, %0#1, %0#2, %1) : (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<1x3x2x2xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3x2x2xf32>, %g: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>):
    %0 = "msc.reshape"(%x) {shape = [4, 2, 3, 2, 2]} : (tensor<8x3x2x2xf32>) -> tensor<4x2x3x2x2xf32> loc("norm")
    %1 = "msc.transpose"(%0) {perm = [1, 0, 2, 3, 4]} : (tensor<4x2x3x2x2xf32>) -> tensor<2x4x3x2x2xf32> loc("norm")
    %2 = "msc.reshape"(%1) {shape = [2, 12, 2, 2]} : (tensor<2x4x3x2x2xf32>) -> tensor<2x12x2x2xf32> loc("norm")
    %3 = "msc.broadcast_to"(%g) {shape = [4, 3]} : (tensor<3xf32>) -> tensor<4x3xf32> loc("norm")
    %4 = "msc.reshape"(%3) {shape = [12]} : (tensor<4x3xf32>) -> tensor<12xf32> loc("norm")
    %5 = "msc.broadcast_to"(%b) {shape = [4, 3]} : (tensor<3xf32>) -> tensor<4x3xf32> loc("norm")
    %6 = "msc.reshape"(%5) {shape = [12]} : (tensor<4x3xf32>) -> tensor<12xf32> loc("norm")
    %7 = "msc.broadcast_to"(%m) {shape = [4, 3]} : (tensor<3xf32>) -> tensor<4x3xf32> loc("norm")
    %8 = "msc.reshape"(%7) {shape = [12]} : (tensor<4x3xf32>) -> tensor<12xf32> loc("norm")
    %9 = "msc.broadcast_to"(%v) {shape = [4, 3]} : (tensor<3xf32>) -> tensor<4x3xf32> loc("norm")
    %10 = "msc.reshape"(%9) {shape = [12]} : (tensor<4x3xf32>) -> tensor<12xf32> loc("norm")
    %11:3 = "msc.batch_norm"(%2, %4, %6, %8, %10) : (tensor<2x12x2x2xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<2x12x2x2xf32>, tensor<12xf32>, tensor<12xf32>) loc("norm")
    %12 = "msc.reshape"(%11#0) {shape = [2, 4, 3, 2, 2]} : (tensor<2x12x2x2xf32>) -> tensor<2x4x3x2x2xf32> loc("norm")
    %13 = "msc.transpose"(%12) {perm = [1, 0, 2, 3, 4]} : (tensor<2x4x3x2x2xf32>) -> tensor<4x2x3x2x2xf32> loc("norm")
    %14 = "msc.reshape"(%13) {shape = [8, 3, 2, 2]} : (tensor<4x2x3x2x2xf32>) -> tensor<8x3x2x2xf32> loc("norm")
    %15 = "msc.reshape"(%11#1) {shape = [4, 3]} : (tensor<12xf32>) -> tensor<4x3xf32> loc("norm")
    %16 = "msc.reduce_mean"(%15) {dims = [0]} : (tensor<4x3xf32>) -> tensor<3xf32> loc("norm")
    %17 = "msc.reshape"(%11#2) {shape = [4, 3]} : (tensor<12xf32>) -> tensor<4x3xf32> loc("norm")
    %18 = "msc.reduce_mean"(%17) {dims = [0]} : (tensor<4x3xf32>) -> tensor<3xf32> loc("norm")
    %19 = "msc.reshape"(%14) {shape = [4, 2, 3, 2, 2]} : (tensor<8x3x2x2xf32>) -> tensor<4x2x3x2x2xf32> loc("largest")
    %20 = "msc.reduce_max"(%19) {dims = [1], keep_dims = true} : (tensor<4x2x3x2x2xf32>) -> tensor<4x1x3x2x2xf32> loc("largest")
    %21 = "msc.reshape"(%14) {shape = [4, 2, 3, 2, 2]} : (tensor<8x3x2x2xf32>) -> tensor<4x2x3x2x2xf32> loc("below")
    %22 = "msc.sub"(%21, %20) : (tensor<4x2x3x2x2xf32>, tensor<4x1x3x2x2xf32>) -> tensor<4x2x3x2x2xf32> loc("below")
    %23 = "msc.reshape"(%22) {shape = [8, 3, 2, 2]} : (tensor<4x2x3x2x2xf32>) -> tensor<8x3x2x2xf32> loc("below")
    %24 = "msc.relu"(%23) : (tensor<8x3x2x2xf32>) -> tensor<8x3x2x2xf32> loc("alone")
    %25 = "msc.reduce_mean"(%20) {dims = [0]} : (tensor<4x1x3x2x2xf32>) -> tensor<1x3x2x2xf32> loc("largest")
    "msc.return"(%24, %16, %18, %25) : (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<1x3x2x2xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
