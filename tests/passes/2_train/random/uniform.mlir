// RUN: msc opt --passes=random %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.uniform"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.dropout"(%0) {rate = 5.0e-01 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.uniform"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.uniform"(%x, %random.seed, %random.step) {salt = 1 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
    %1 = "msc.uniform"(%x, %random.seed, %random.step) {salt = 2 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
    "msc.return"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{},
                   {msc.init = "seed", msc.name = "random.seed", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "random.step", msc.role = "state"}],
      sym_name = "forward"} : () -> ()
}
