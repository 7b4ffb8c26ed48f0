// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.exp"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.stop_gradient"(%1) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.mul"(%0, %2) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = "msc.stop_gradient"(%w) {out_strategy = [[1]]} : (tensor<3xf32>) -> tensor<3xf32>
    %5 = "msc.add"(%3, %4) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %6 = "msc.reduce_sum"(%5) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.stop_gradient"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {sym_name = "other"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.exp"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.mul"(%0, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.stop_gradient"(%w) {out_strategy = [[1]]} : (tensor<3xf32>) -> tensor<3xf32>
    %4 = "msc.add"(%2, %3) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %6 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %7 = "msc.broadcast_to"(%6) {forward = "%5", letters = "AB", shape = [4, 3]} : (tensor<f32>) -> tensor<4x3xf32>
    %8 = "msc.mul"(%7, %1) {forward = "%2", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %9 = "msc.mul"(%8, %x) {forward = "%0", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %10 = "msc.reduce_sum"(%9) {dims = [0], forward = "%0", letters = "AB"} : (tensor<4x3xf32>) -> tensor<3xf32>
    "msc.return"(%5, %10) : (tensor<f32>, tensor<3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {sym_name = "other"} : () -> ()
}
