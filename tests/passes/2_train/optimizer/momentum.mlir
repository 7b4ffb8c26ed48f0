// RUN: msc opt --passes=autodiff,optimizer,tidy --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "momentum", lr = 1 : i64, momentum = 9.0e-01 : f32, nesterov = true},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %w.m: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.mul"(%2, %x) {forward = "%0", letters = "A"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    %4:2 = "msc.momentum"(%w, %w.m, %3) {lr = 1.0e+00 : f64, momentum = 9.0e-01 : f32, nesterov = true} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("w.update")
    "msc.return"(%1, %4#0, %4#1) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
