// RUN: msc opt --passes=cross_batch,replica_objective --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>, %w: tensor<f32>, %k: tensor<8xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = "msc.mul"(%0, %k) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    %3 = "msc.reduce_sum"(%k) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.max"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.div"(%2, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "k", msc.role = "data"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>, %w: tensor<f32>, %k: tensor<8xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = "msc.mul"(%0, %k) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    %3 = "msc.reduce_sum"(%k) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.max"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.div"(%2, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "k", msc.role = "data"}],
      loss = 0 : i64,
      loss_seed = 2.0e+00 : f64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      replicas = 2 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
