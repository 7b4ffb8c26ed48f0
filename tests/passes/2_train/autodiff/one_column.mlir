// RUN: msc opt --passes=autodiff %s
// The gradient of a bias of one element keeps the letter of the batch, so that ranks sum it and do not gather the batch.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x1xf32>, %b: tensor<1xf32>):
    %0 = "msc.add"(%x, %b) : (tensor<8x1xf32>, tensor<1xf32>) -> tensor<8x1xf32> loc("biased")
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<8x1xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x1xf32>, %b: tensor<1xf32>):
    %0 = "msc.add"(%x, %b) : (tensor<8x1xf32>, tensor<1xf32>) -> tensor<8x1xf32> loc("biased")
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<8x1xf32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.broadcast_to"(%2) {forward = "%1", letters = "A", shape = [8, 1]} : (tensor<f32>) -> tensor<8x1xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0], forward = "biased", letters = "A."} : (tensor<8x1xf32>) -> tensor<1xf32> loc("biased.grad")
    "msc.return"(%1, %4) : (tensor<f32>, tensor<1xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "b.grad"],
      sym_name = "forward"} : () -> ()
}
