// RUN: msc opt --passes=narrow --check-numerics %s
// What a micro-batch adds to the sum of gradients is backward, what it adds to that of losses is not.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xbf16>, %w: tensor<4x4xf32>, %losses: tensor<f32>, %gradients: tensor<4x4xf32>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "msc.mul"(%0, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %4 = "msc.add"(%losses, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = "msc.mul"(%0, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.matmul"(%5, %0) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %7 = "msc.add"(%gradients, %6) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%4, %7) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.loss = true, msc.name = "losses", msc.role = "sum"},
                   {msc.name = "gradients", msc.role = "sum"}],
      micro = 2 : i64,
      program = "train",
      section = "FB",
      stage = 0 : i64,
      sym_name = "train.FB",
      ties = [2, 3]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xbf16>, %w: tensor<4x4xf32>, %losses: tensor<f32>, %gradients: tensor<4x4xf32>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "msc.mul"(%0, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %4 = "msc.add"(%losses, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = "msc.cast"(%x) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %6 = "msc.mul"(%5, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.matmul"(%6, %5) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %8 = "msc.add"(%gradients, %7) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%4, %8) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.loss = true, msc.name = "losses", msc.role = "sum"},
                   {msc.name = "gradients", msc.role = "sum"}],
      micro = 2 : i64,
      program = "train",
      section = "FB",
      stage = 0 : i64,
      sym_name = "train.FB",
      ties = [2, 3]} : () -> ()
}
