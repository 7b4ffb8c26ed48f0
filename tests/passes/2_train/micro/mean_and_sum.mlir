// RUN: msc opt --passes=micro --set micro_size=4 %s
// A sum over the batch added to a mean: k times the sum of a micro-batch is its share of the mean over micro-batches.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x3xf32>) -> tensor<f32>
    %2 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<8x3xf32>) -> tensor<f32>
    %3 = "msc.mul"(%w, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0]} : (tensor<3xf32>) -> tensor<f32>
    %5 = "msc.add"(%2, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.sub"(%5, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "msc.add"(%6, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%7) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3xf32>, %w: tensor<3xf32>, %micro: tensor<i64>):
    %0 = "msc.mul"(%x, %w) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    %2 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    %3 = "msc.mul"(%w, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0]} : (tensor<3xf32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.mul"(%2, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "msc.add"(%6, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = "msc.sub"(%7, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.constant"() {value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32>
    %10 = "msc.mul"(%2, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "msc.add"(%8, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%11) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 2.5e-01 : f64,
      micro = 4 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
