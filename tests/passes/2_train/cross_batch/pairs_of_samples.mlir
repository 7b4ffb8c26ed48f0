// RUN: msc opt --passes=cross_batch,replica_objective --set device_num=2 --set parallel_mode=data_parallel --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    %1 = "msc.matmul"(%0, %0) {transpose_b = true} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x8xf32>
    %2 = "msc.neg"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.reduce_max"(%2) {dims = [0]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    %1 = "msc.matmul"(%0, %0) {transpose_b = true} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x8xf32>
    %2 = "msc.neg"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.reduce_max"(%2) {dims = [0]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      loss_seed = 2.0e+00 : f64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      replicas = 2 : i64,
      sym_name = "forward"} : () -> ()
}
