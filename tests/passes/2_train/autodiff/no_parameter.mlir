// RUN: msc opt --passes=autodiff --verify-diagnostics %s
module {
  // expected-error @+1 {{the loss depends on no trainable parameter}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.sign"(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.mul"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
