// RUN: msc opt --passes=cross_batch,replica_objective --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>):
    %0:3 = "msc.batch_norm"(%x, %g, %b, %m, %v) {training = false} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %1 = "msc.mul"(%0#0, %0#0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = 0 : i64, msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "v", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e+00 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>):
    %0:3 = "msc.batch_norm"(%x, %g, %b, %m, %v) {training = false} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %1 = "msc.mul"(%0#0, %0#0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = 0 : i64, msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "v", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      loss_seed = 2.0e+00 : f64,
      optimizer = {kind = "sgd", lr = 1.0e+00 : f64},
      replicas = 2 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
