// RUN: msc opt --passes=cse,random,autodiff,optimizer %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.dropout"(%0) {rate = 5.0e-01 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.dropout"(%0) {rate = 5.0e-01 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.dropout"(%x) {rate = 1.0e-01 : f64, salt = 6 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "msc.add"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.mul"(%4, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %6 = "msc.reduce_sum"(%5) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.dropout"(%0, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 7 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
    %2 = "msc.dropout"(%0, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 8 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
    %3 = "msc.dropout"(%x, %random.seed, %random.step) {rate = 1.0e-01 : f64, salt = 6 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
    %4 = "msc.add"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.mul"(%4, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %6 = "msc.reduce_sum"(%5) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %7 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.broadcast_to"(%7) {forward = "%6", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %9 = "msc.mul"(%8, %3) {forward = "%5", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %10 = "msc.dropout"(%9, %random.seed, %random.step) {forward = "%2", letters = "A", rate = 5.0e-01 : f64, salt = 8 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
    %11 = "msc.dropout"(%9, %random.seed, %random.step) {forward = "%1", letters = "A", rate = 5.0e-01 : f64, salt = 7 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
    %12 = "msc.add"(%10, %11) {forward = "%0", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %13 = "msc.mul"(%12, %x) {forward = "%0", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %14 = "msc.sgd"(%w, %13) {lr = 1.0e-01 : f64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("w.update")
    %15 = "msc.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64> loc("random.step")
    %16 = "msc.add"(%random.step, %15) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc("random.step")
    "msc.return"(%6, %14, %16) : (tensor<f32>, tensor<4xf32>, tensor<i64>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "seed", msc.name = "random.seed", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "random.step", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "random.step"],
      sym_name = "train",
      ties = [-1, 1, 3]} : () -> ()
}
