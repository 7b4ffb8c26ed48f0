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
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32, weight_decay = 1.0e-02 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %c: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.add"(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.broadcast_to"(%3) {forward = "%2", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %5 = "msc.mul"(%3, %x) {forward = "%0", letters = "A"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    %6 = "msc.sgd"(%w, %5) {lr = 1.0e-01 : f32, weight_decay = 1.0e-02 : f32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("w.update")
    %7 = "msc.sgd"(%c, %4) {lr = 1.0e-01 : f32, weight_decay = 1.0e-02 : f32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("c.update")
    "msc.return"(%2, %6, %7) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "c", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w", "c"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
