// RUN: msc opt --passes=replica_objective,autodiff --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %2 = "msc.mul"(%w, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %4 = "msc.add"(%1, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
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
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %2 = "msc.mul"(%w, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %4 = "msc.add"(%1, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.broadcast_to"(%5) {forward = "%3", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %7 = "msc.mul"(%6, %w) {forward = "%2", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %8 = "msc.mul"(%6, %w) {forward = "%2", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %9 = "msc.add"(%7, %8) {forward = "%2", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %10 = "msc.constant"() {value = dense<3.2e+01> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.div"(%5, %10) {forward = "%1", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %12 = "msc.broadcast_to"(%11) {forward = "%1", letters = "AB", shape = [8, 4]} : (tensor<f32>) -> tensor<8x4xf32>
    %13 = "msc.mul"(%12, %x) {forward = "%0", letters = "AB"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %14 = "msc.reduce_sum"(%13) {dims = [0], forward = "%0", letters = "AB"} : (tensor<8x4xf32>) -> tensor<4xf32>
    %15 = "msc.add"(%9, %14) {forward = "%0", letters = "B"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%4, %15) : (tensor<f32>, tensor<4xf32>) -> ()
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
