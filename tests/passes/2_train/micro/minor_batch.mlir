// RUN: msc opt --passes=micro --set micro_size=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3x4xf32>, %w: tensor<4x5xf32>, %u: tensor<5x5xf32>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<8x3x4xf32>) -> tensor<3x8x4xf32>
    %2 = "msc.reshape"(%1) {shape = [24, 4]} : (tensor<3x8x4xf32>) -> tensor<24x4xf32>
    %3 = "msc.matmul"(%2, %w) : (tensor<24x4xf32>, tensor<4x5xf32>) -> tensor<24x5xf32>
    %4 = "msc.reshape"(%3) {shape = [3, 8, 5]} : (tensor<24x5xf32>) -> tensor<3x8x5xf32>
    %5 = "msc.slice"(%4) {limit = [1, 8, 5], start = [0, 0, 0]} : (tensor<3x8x5xf32>) -> tensor<1x8x5xf32>
    %6 = "msc.broadcast_to"(%0) {shape = [8, 5]} : (tensor<f32>) -> tensor<8x5xf32> loc("state")
    %7 = "msc.matmul"(%6, %u) : (tensor<8x5xf32>, tensor<5x5xf32>) -> tensor<8x5xf32> loc("state")
    %8 = "msc.reshape"(%7) {shape = [1, 8, 5]} : (tensor<8x5xf32>) -> tensor<1x8x5xf32> loc("state")
    %9:2 = "msc.split"(%8) {dim = 2 : i64, sizes = [2, 3]} : (tensor<1x8x5xf32>) -> (tensor<1x8x2xf32>, tensor<1x8x3xf32>) loc("state")
    %10 = "msc.concat"(%9#1, %9#0) {dim = 2 : i64} : (tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> tensor<1x8x5xf32> loc("state")
    %11 = "msc.add"(%5, %10) : (tensor<1x8x5xf32>, tensor<1x8x5xf32>) -> tensor<1x8x5xf32>
    %12 = "msc.reduce_mean"(%11) {dims = [0, 1, 2]} : (tensor<1x8x5xf32>) -> tensor<f32>
    "msc.return"(%12) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x4xf32>, %w: tensor<4x5xf32>, %u: tensor<5x5xf32>, %micro: tensor<i64>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<4x3x4xf32>) -> tensor<3x4x4xf32>
    %2 = "msc.reshape"(%1) {shape = [12, 4]} : (tensor<3x4x4xf32>) -> tensor<12x4xf32>
    %3 = "msc.matmul"(%2, %w) : (tensor<12x4xf32>, tensor<4x5xf32>) -> tensor<12x5xf32>
    %4 = "msc.reshape"(%3) {shape = [3, 4, 5]} : (tensor<12x5xf32>) -> tensor<3x4x5xf32>
    %5 = "msc.slice"(%4) {limit = [1, 4, 5], start = [0, 0, 0]} : (tensor<3x4x5xf32>) -> tensor<1x4x5xf32>
    %6 = "msc.broadcast_to"(%0) {shape = [8, 5]} : (tensor<f32>) -> tensor<8x5xf32> loc("state")
    %7 = "msc.matmul"(%6, %u) : (tensor<8x5xf32>, tensor<5x5xf32>) -> tensor<8x5xf32> loc("state")
    %8 = "msc.reshape"(%7) {shape = [1, 8, 5]} : (tensor<8x5xf32>) -> tensor<1x8x5xf32> loc("state")
    %9:2 = "msc.split"(%8) {dim = 2 : i64, sizes = [2, 3]} : (tensor<1x8x5xf32>) -> (tensor<1x8x2xf32>, tensor<1x8x3xf32>) loc("state")
    %10 = "msc.concat"(%9#1, %9#0) {dim = 2 : i64} : (tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> tensor<1x8x5xf32> loc("state")
    %11 = "msc.broadcast_to"(%0) {shape = [4, 5]} : (tensor<f32>) -> tensor<4x5xf32> loc("state")
    %12 = "msc.matmul"(%11, %u) : (tensor<4x5xf32>, tensor<5x5xf32>) -> tensor<4x5xf32> loc("state")
    %13 = "msc.reshape"(%12) {shape = [1, 4, 5]} : (tensor<4x5xf32>) -> tensor<1x4x5xf32> loc("state")
    %14:2 = "msc.split"(%13) {dim = 2 : i64, sizes = [2, 3]} : (tensor<1x4x5xf32>) -> (tensor<1x4x2xf32>, tensor<1x4x3xf32>) loc("state")
    %15:2 = "msc.split"(%13) {dim = 2 : i64, sizes = [2, 3]} : (tensor<1x4x5xf32>) -> (tensor<1x4x2xf32>, tensor<1x4x3xf32>) loc("state")
    %16 = "msc.concat"(%14#1, %15#0) {dim = 2 : i64} : (tensor<1x4x3xf32>, tensor<1x4x2xf32>) -> tensor<1x4x5xf32> loc("state")
    %17 = "msc.add"(%5, %16) : (tensor<1x4x5xf32>, tensor<1x4x5xf32>) -> tensor<1x4x5xf32>
    %18 = "msc.reduce_mean"(%17) {dims = [0, 1, 2]} : (tensor<1x4x5xf32>) -> tensor<f32>
    "msc.return"(%18) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 5.0e-01 : f64,
      micro = 2 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
