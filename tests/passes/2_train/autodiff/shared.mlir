// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.matmul"(%0, %w) {transpose_b = true} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.matmul"(%0, %w) {transpose_b = true} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.broadcast_to"(%4) {forward = "%3", letters = "AB", shape = [4, 3]} : (tensor<f32>) -> tensor<4x3xf32>
    %6 = "msc.mul"(%5, %1) {forward = "%2", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %7 = "msc.mul"(%5, %1) {forward = "%2", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %8 = "msc.add"(%6, %7) {forward = "%1", letters = "mn"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %9 = "msc.matmul"(%8, %w) {forward = "%1", letters = "mnk"} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %10 = "msc.matmul"(%8, %0) {forward = "%1", letters = "mnk", transpose_a = true} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
    %11 = "msc.matmul"(%x, %9) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
    %12 = "msc.add"(%10, %11) {forward = "%0", letters = "kn"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    "msc.return"(%3, %12) : (tensor<f32>, tensor<3x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
