// RUN: msc opt --passes=micro --set micro_size=2 %s
// Random numbers for every sample that no input has, as attention's dropout draws them: those of a micro-batch, once
// for both ops that read them.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x3xf32>} : () -> tensor<4x3xf32>
    %1 = "msc.dropout"(%0) {rate = 5.0e-01 : f64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %3 = "msc.mul"(%2, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = "msc.add"(%3, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %5 = "msc.reduce_mean"(%4) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
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
  ^bb0(%x: tensor<2x3xf32>, %w: tensor<3xf32>, %micro: tensor<i64>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x3xf32>} : () -> tensor<4x3xf32>
    %1 = "msc.dropout"(%0) {rate = 5.0e-01 : f64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.mul"(%x, %w) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
    %4 = "msc.dropout"(%3) {rate = 5.0e-01 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %5 = "msc.mul"(%2, %4) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %6 = "msc.add"(%5, %4) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %7 = "msc.reduce_mean"(%6) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    "msc.return"(%7) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 5.0e-01 : f64,
      micro = 2 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
