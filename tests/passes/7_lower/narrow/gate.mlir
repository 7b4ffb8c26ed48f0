// RUN: msc opt --passes=narrow --check-numerics %s
// The backward makes the silu of the gate again, of the gate, which the gradient of silu keeps.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%a: tensor<8x4xf32>, %w: tensor<4x4xf32>, %p: tensor<4x4xf32>):
    %0 = "msc.matmul"(%a, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.silu"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.mul"(%1, %a) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.matmul"(%2, %p) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %5 = "msc.matmul"(%3, %p) {transpose_b = true} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.mul"(%5, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.mul"(%5, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.matmul"(%7, %6) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %9 = "msc.sgd"(%p, %8) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%4, %9) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "p", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 2]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%a: tensor<8x4xf32>, %w: tensor<4x4xf32>, %p: tensor<4x4xf32>):
    %0 = "msc.matmul"(%a, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.silu"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.mul"(%1, %a) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.matmul"(%2, %p) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %5 = "msc.matmul"(%3, %p) {transpose_b = true} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.silu"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.mul"(%5, %6) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.mul"(%5, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.matmul"(%8, %7) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %10 = "msc.sgd"(%p, %9) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%4, %10) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "p", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 2]} : () -> ()
}
