// RUN: msc opt --passes=autodiff,optimizer,tidy --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %c: tensor<4xf32>, %e: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.add"(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.add"(%1, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "c", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "e", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = [{kind = "sgd", lr = 1.0e-01 : f32, parameters = ["c"]}, {kind = "momentum", lr = 2.0e-01 : f32, momentum = 9.0e-01 : f32, parameters = ["w"]}],
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %c: tensor<4xf32>, %e: tensor<4xf32>, %w.m: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.add"(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.add"(%1, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.broadcast_to"(%4) {forward = "%3", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %6 = "msc.mul"(%4, %x) {forward = "%0", letters = "A"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    %7 = "msc.sgd"(%c, %5) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("c.update")
    %8:2 = "msc.momentum"(%w, %w.m, %6) {lr = 2.0e-01 : f32, momentum = 9.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("w.update")
    "msc.return"(%3, %8#0, %7, %8#1) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "c", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "e", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "c", "w.m"],
      sym_name = "train",
      ties = [-1, 1, 2, 4]} : () -> ()
}
