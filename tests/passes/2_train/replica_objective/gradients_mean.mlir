// RUN: msc opt --passes=replica_objective,autodiff --set parallel_mode=data_parallel --set device_num=4 --set gradients_mean=true %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
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
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.softmax_cross_entropy_grad"(%0, %y, %2) {forward = "%1", letters = "Ac"} : (tensor<8x3xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x3xf32>
    %4 = "msc.matmul"(%x, %3) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<8x4xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
    "msc.return"(%1, %4) : (tensor<f32>, tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      replicas = 4 : i64,
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
