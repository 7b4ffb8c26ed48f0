// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%w: tensor<3x3xf32>):
    %0 = "msc.matmul"(%w, %w) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %1 = "msc.matmul"(%0, %0) {transpose_a = true} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0, 1]} : (tensor<3x3xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%w: tensor<3x3xf32>):
    %0 = "msc.matmul"(%w, %w) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %1 = "msc.matmul"(%0, %0) {transpose_a = true} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0, 1]} : (tensor<3x3xf32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.broadcast_to"(%3) {forward = "%2", letters = "AB", shape = [3, 3]} : (tensor<f32>) -> tensor<3x3xf32>
    %5 = "msc.matmul"(%0, %4) {forward = "%1", letters = "knm", transpose_b = true} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %6 = "msc.matmul"(%0, %4) {forward = "%1", letters = "kmn"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %7 = "msc.add"(%5, %6) {forward = "%0", letters = "mn"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %8 = "msc.matmul"(%7, %w) {forward = "%0", letters = "mnk", transpose_b = true} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %9 = "msc.matmul"(%w, %7) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %10 = "msc.add"(%8, %9) {forward = "%0", letters = "mk"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    "msc.return"(%2, %10) : (tensor<f32>, tensor<3x3xf32>) -> ()
  }) {arg_attrs = [{msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [0],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
