// RUN: msc opt --passes=micro,random --set micro_size=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %1 = "msc.dropout"(%0) {rate = 5.0e-01 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0, 1]} : (tensor<4x6xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %w: tensor<6xf32>, %micro: tensor<i64>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64> loc("random.step")
    %1 = "msc.mul"(%random.step, %0) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc("random.step")
    %2 = "msc.add"(%1, %micro) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc("random.step")
    %3 = "msc.mul"(%x, %w) : (tensor<2x6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
    %4 = "msc.dropout"(%3, %random.seed, %2) {rate = 5.0e-01 : f64, salt = 1 : i64} : (tensor<2x6xf32>, tensor<i64>, tensor<i64>) -> tensor<2x6xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0, 1]} : (tensor<2x6xf32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.init = "seed", msc.name = "random.seed", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "random.step", msc.role = "state"}],
      loss = 0 : i64,
      micro = 2 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      random_step = 4 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
