// RUN: msc opt --passes=micro --set micro_size=2 %s
// A loss that is a quotient, and a result that adds a sum to a mean, which makes the sum a mean.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %y: tensor<4x3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %2 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %4 = "msc.reduce_sum"(%y) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %5 = "msc.div"(%2, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%5, %3) : (tensor<f32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "both"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3xf32>, %w: tensor<3xf32>, %y: tensor<2x3xf32>, %micro: tensor<i64>):
    %0 = "msc.mul"(%x, %w) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    %2 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.mul"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = "msc.add"(%1, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.reduce_sum"(%y) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    %7 = "msc.div"(%2, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%7, %5) : (tensor<f32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_quotient = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "both"],
      sym_name = "forward"} : () -> ()
}
