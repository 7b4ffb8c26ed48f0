// RUN: msc opt --passes=autodiff --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<3x3xf32>, %d: tensor<f32>):
    // expected-note @+1 {{through matmul}}
    %0 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    // expected-note @+1 {{through tanh}}
    %1 = "msc.tanh"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    // expected-error @+1 {{sgd: the loss depends on a trainable parameter through this op, which has no gradient}}
    %2 = "msc.sgd"(%1, %1) {lr = 0.1 : f32} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}, {msc.name = "d", msc.role = "data"}]} : () -> ()
}
