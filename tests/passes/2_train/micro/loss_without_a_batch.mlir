// RUN: msc opt --passes=micro,autodiff --set micro_size=2 %s
module {
  "msc.func"() ({
  ^bb0(%w: tensor<3x4xf32>):
    %0 = "msc.mul"(%w, %w) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<3x4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e+00 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%w: tensor<3x4xf32>, %micro: tensor<i64>):
    %0 = "msc.mul"(%w, %w) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<3x4xf32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.broadcast_to"(%2) {forward = "%1", letters = "AB", shape = [3, 4]} : (tensor<f32>) -> tensor<3x4xf32>
    %4 = "msc.mul"(%3, %w) {forward = "%0", letters = "AB"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %5 = "msc.mul"(%3, %w) {forward = "%0", letters = "AB"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %6 = "msc.add"(%4, %5) {forward = "%0", letters = "AB"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "msc.return"(%1, %6) : (tensor<f32>, tensor<3x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      gradients = [0],
      loss = 0 : i64,
      micro = 2 : i64,
      optimizer = {kind = "sgd", lr = 1.0e+00 : f64},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
