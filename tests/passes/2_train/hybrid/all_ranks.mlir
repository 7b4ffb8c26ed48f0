// RUN: msc opt --set device_num=2 --set parallel_mode=hybrid_parallel --passes=autodiff,hybrid %s
// A sum over ranks without axes is over all of them, and so is that of its gradient.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
    %1 = "msc.all_reduce"(%0) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<4x5xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
    %1 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<4x5xf32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.constant"() {value = dense<2.0e+01> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.div"(%3, %4) {forward = "%2", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.broadcast_to"(%5) {forward = "%2", letters = "AB", shape = [4, 5]} : (tensor<f32>) -> tensor<4x5xf32>
    %7 = "msc.all_reduce"(%6) {axes = "{d}", forward = "%1", letters = "AB"} : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %8 = "msc.matmul"(%x, %7) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
    %9 = "msc.all_reduce"(%2) {axes = "{d}"} : (tensor<f32>) -> tensor<f32>
    %10 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.mul"(%9, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %12 = "msc.all_reduce"(%8) {axes = "{d}"} : (tensor<3x5xf32>) -> tensor<3x5xf32>
    "msc.return"(%11, %12) : (tensor<f32>, tensor<3x5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      manual = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      sym_name = "forward"} : () -> ()
}
