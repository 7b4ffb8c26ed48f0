// RUN: msc opt --passes=micro --set micro_size=4 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x2x3x3xf32>, %w: tensor<2x1x1x1xf32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x1x3x3xf32>} : () -> tensor<8x1x3x3xf32>
    %1 = "msc.conv2d"(%0, %w) : (tensor<8x1x3x3xf32>, tensor<2x1x1x1xf32>) -> tensor<8x2x3x3xf32>
    %2 = "msc.add"(%x, %1) : (tensor<8x2x3x3xf32>, tensor<8x2x3x3xf32>) -> tensor<8x2x3x3xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1, 2, 3]} : (tensor<8x2x3x3xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
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
  ^bb0(%x: tensor<2x2x3x3xf32>, %w: tensor<2x1x1x1xf32>, %micro: tensor<i64>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x1x3x3xf32>} : () -> tensor<8x1x3x3xf32>
    %1 = "msc.conv2d"(%0, %w) : (tensor<8x1x3x3xf32>, tensor<2x1x1x1xf32>) -> tensor<8x2x3x3xf32>
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<2x1x3x3xf32>} : () -> tensor<2x1x3x3xf32>
    %3 = "msc.conv2d"(%2, %w) : (tensor<2x1x3x3xf32>, tensor<2x1x1x1xf32>) -> tensor<2x2x3x3xf32>
    %4 = "msc.add"(%x, %3) : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
    %5 = "msc.reduce_mean"(%4) {dims = [0, 1, 2, 3]} : (tensor<2x2x3x3xf32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 2.5e-01 : f64,
      micro = 4 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
