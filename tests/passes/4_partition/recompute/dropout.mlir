// RUN: msc opt --passes=random,autodiff,optimizer,tidy,recompute %s
// A dropout is repeated with the same salt, seed and step: the same elements are dropped.  The step's new value is made after that.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.dropout"(%x) {rate = 5.0e-01 : f32, recompute = true} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%0, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.dropout"(%x, %random.seed, %random.step) {rate = 5.0e-01 : f32, salt = 1 : i64} : (tensor<8x6xf32>, tensor<i64>, tensor<i64>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%0, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "%2", letters = "Ac"} : (tensor<8x3xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x3xf32>
    %5 = "msc.dropout"(%x, %random.seed, %random.step) {rate = 5.0e-01 : f32, recompute = true, salt = 1 : i64} : (tensor<8x6xf32>, tensor<i64>, tensor<i64>) -> tensor<8x6xf32>
    %6 = "msc.matmul"(%5, %4) {forward = "%1", letters = "mkn", transpose_a = true} : (tensor<8x6xf32>, tensor<8x3xf32>) -> tensor<6x3xf32>
    %7 = "msc.sgd"(%w, %6) {lr = 1.0e-01 : f32} : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<6x3xf32> loc("w.update")
    %8 = "msc.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64> loc("random.step")
    %9 = "msc.add"(%random.step, %8) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc("random.step")
    "msc.return"(%2, %7, %9) : (tensor<f32>, tensor<6x3xf32>, tensor<i64>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "seed", msc.name = "random.seed", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "random.step", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "random.step"],
      sym_name = "train",
      ties = [-1, 1, 4]} : () -> ()
}
