// RUN: msc opt --passes=autodiff,optimizer,tidy --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %c: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.add"(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "c", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "adam", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %c: tensor<4xf32>, %optimizer.step: tensor<f32>, %w.m: tensor<4xf32>, %w.v: tensor<4xf32>, %c.m: tensor<4xf32>, %c.v: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.add"(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.broadcast_to"(%4) {forward = "%2", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %6 = "msc.mul"(%4, %x) {forward = "%0", letters = "A"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    %7 = "msc.add"(%optimizer.step, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("optimizer.step")
    %8:3 = "msc.adam"(%w, %w.m, %w.v, %6, %7) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) loc("w.update")
    %9:3 = "msc.adam"(%c, %c.m, %c.v, %5, %7) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) loc("c.update")
    "msc.return"(%2, %8#0, %9#0, %7, %8#1, %8#2, %9#1, %9#2) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "c", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "optimizer.step", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "c.m", msc.owner = "c", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "c.v", msc.owner = "c", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "c", "optimizer.step", "w.m", "w.v", "c.m", "c.v"],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4, 5, 6, 7]} : () -> ()
}
