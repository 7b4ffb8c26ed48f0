// RUN: msc opt --passes=replica_objective,autodiff --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<3x8x4xf32>, %w: tensor<4x5xf32>, %y: tensor<8x3xi32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<3x8x4xf32>) -> tensor<8x3x4xf32>
    %1 = "msc.reshape"(%0) {shape = [24, 4]} : (tensor<8x3x4xf32>) -> tensor<24x4xf32>
    %2 = "msc.matmul"(%1, %w) : (tensor<24x4xf32>, tensor<4x5xf32>) -> tensor<24x5xf32>
    %3 = "msc.reshape"(%2) {shape = [8, 3, 5]} : (tensor<24x5xf32>) -> tensor<8x3x5xf32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x1x1xf32>} : () -> tensor<8x1x1xf32>
    %5 = "msc.add"(%3, %4) : (tensor<8x3x5xf32>, tensor<8x1x1xf32>) -> tensor<8x3x5xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<8x3x5xf32>, tensor<8x3xi32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = 1 : i64, msc.name = "x", msc.role = "data"},
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
  ^bb0(%x: tensor<3x8x4xf32>, %w: tensor<4x5xf32>, %y: tensor<8x3xi32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<3x8x4xf32>) -> tensor<8x3x4xf32>
    %1 = "msc.reshape"(%0) {shape = [24, 4]} : (tensor<8x3x4xf32>) -> tensor<24x4xf32>
    %2 = "msc.matmul"(%1, %w) : (tensor<24x4xf32>, tensor<4x5xf32>) -> tensor<24x5xf32>
    %3 = "msc.reshape"(%2) {shape = [8, 3, 5]} : (tensor<24x5xf32>) -> tensor<8x3x5xf32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x1x1xf32>} : () -> tensor<8x1x1xf32>
    %5 = "msc.add"(%3, %4) : (tensor<8x3x5xf32>, tensor<8x1x1xf32>) -> tensor<8x3x5xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<8x3x5xf32>, tensor<8x3xi32>) -> tensor<f32>
    %7 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.softmax_cross_entropy_grad"(%5, %y, %7) {forward = "%6", letters = "ABc"} : (tensor<8x3x5xf32>, tensor<8x3xi32>, tensor<f32>) -> tensor<8x3x5xf32>
    %9 = "msc.reshape"(%8) {forward = "%3", letters = "ABC", shape = [24, 5]} : (tensor<8x3x5xf32>) -> tensor<24x5xf32>
    %10 = "msc.matmul"(%1, %9) {forward = "%2", letters = "mkn", transpose_a = true} : (tensor<24x4xf32>, tensor<24x5xf32>) -> tensor<4x5xf32>
    "msc.return"(%6, %10) : (tensor<f32>, tensor<4x5xf32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = 1 : i64, msc.name = "x", msc.role = "data"},
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
