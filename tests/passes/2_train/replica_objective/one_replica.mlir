// RUN: msc opt --passes=replica_objective,autodiff --set parallel_mode=data_parallel --set device_num=1 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    %2 = "msc.sub"(%0, %1) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
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
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    %2 = "msc.sub"(%0, %1) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.constant"() {value = dense<3.2e+01> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.div"(%4, %5) {forward = "%3", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "msc.broadcast_to"(%6) {forward = "%3", letters = "AB", shape = [8, 4]} : (tensor<f32>) -> tensor<8x4xf32>
    %8 = "msc.reduce_sum"(%7) {dims = [0], forward = "%2", letters = "AB"} : (tensor<8x4xf32>) -> tensor<4xf32>
    %9 = "msc.neg"(%8) {forward = "%2", letters = "B"} : (tensor<4xf32>) -> tensor<4xf32>
    %10 = "msc.constant"() {value = dense<8.0e+00> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.div"(%9, %10) {forward = "%1", letters = "B"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %12 = "msc.broadcast_to"(%11) {forward = "%1", letters = "BA", shape = [8, 4]} : (tensor<4xf32>) -> tensor<8x4xf32>
    %13 = "msc.add"(%7, %12) {forward = "%0", letters = "AB"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %14 = "msc.mul"(%13, %x) {forward = "%0", letters = "AB"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %15 = "msc.reduce_sum"(%14) {dims = [0], forward = "%0", letters = "AB"} : (tensor<8x4xf32>) -> tensor<4xf32>
    "msc.return"(%3, %15) : (tensor<f32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
