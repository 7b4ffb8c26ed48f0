// RUN: msc opt --passes=replica_objective,autodiff --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.mul"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
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
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.mul"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.mul"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %7 = "msc.mul"(%6, %4) {forward = "%5", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = "msc.mul"(%7, %2) {forward = "%3", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.broadcast_to"(%8) {forward = "%1", letters = "AB", shape = [8, 4]} : (tensor<f32>) -> tensor<8x4xf32>
    %10 = "msc.mul"(%9, %x) {forward = "%0", letters = "AB"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %11 = "msc.reduce_sum"(%10) {dims = [0], forward = "%0", letters = "AB"} : (tensor<8x4xf32>) -> tensor<4xf32>
    "msc.return"(%5, %11) : (tensor<f32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      loss_seed = 2.0e+00 : f64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      replicas = 2 : i64,
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
