// RUN: msc opt --passes=replica_objective,autodiff --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>, %y: tensor<8xi32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>, %y: tensor<8xi32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.vjp"(%0, %y, %2) {forward = "%1", ignore_index = -100 : i64, letters = "Ac", of = [0], op = "softmax_cross_entropy", wrt = [0]} : (tensor<8x4xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x4xf32>
    %4 = "msc.mul"(%3, %x) {forward = "%0", letters = "AB"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0], forward = "%0", letters = "AB"} : (tensor<8x4xf32>) -> tensor<4xf32>
    "msc.return"(%1, %5) : (tensor<f32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      gradients = [1],
      loss = 0 : i64,
      loss_seed = 2.0e+00 : f64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      replicas = 2 : i64,
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
