// RUN: msc opt --set device_num=4 --set parallel_mode=hybrid_parallel --set gradients_mean=true --passes=autodiff,hybrid,optimizer %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %y: tensor<2x3xf32>, %w: tensor<6x3xf32>, %b: tensor<3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32> loc("dense")
    %1 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("mixed")
    %2 = "msc.add"(%1, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32> loc("bias")
    %3 = "msc.mean_absolute_error"(%2, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%3, %2) : (tensor<f32>, tensor<2x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.5", msc.layerwise_parallel = true, msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "momentum", lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64},
      results = ["loss", "out"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %y: tensor<2x3xf32>, %w: tensor<6x3xf32>, %b: tensor<3xf32>, %w.m: tensor<6x3xf32>, %b.m: tensor<3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32> loc("dense")
    %1 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("mixed")
    %2 = "msc.add"(%1, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32> loc("bias")
    %3 = "msc.mean_absolute_error"(%2, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<f32> loc("loss")
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.vjp"(%2, %y, %4) {forward = "loss", letters = "AB", of = [0], op = "mean_absolute_error", wrt = [0]} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32> loc("loss.grad")
    %6 = "msc.reduce_sum"(%5) {dims = [0], forward = "bias", letters = "AB"} : (tensor<2x3xf32>) -> tensor<3xf32> loc("bias.grad")
    %7 = "msc.all_reduce"(%5) {axes = "{d}", forward = "mixed", letters = "AB"} : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("mixed.grad")
    %8 = "msc.matmul"(%x, %7) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<2x6xf32>, tensor<2x3xf32>) -> tensor<6x3xf32> loc("dense.grad")
    %9 = "msc.all_reduce"(%3) {axes = "{d}"} : (tensor<f32>) -> tensor<f32> loc("loss")
    %10 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("loss")
    %11 = "msc.mul"(%9, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss")
    %12 = "msc.all_gather"(%2) {axes = "{d}"} : (tensor<2x3xf32>) -> tensor<8x3xf32> loc("bias")
    %13 = "msc.all_reduce"(%6) {axes = "{d}"} : (tensor<3xf32>) -> tensor<3xf32> loc("bias.grad")
    %14 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("bias.grad")
    %15 = "msc.mul"(%13, %14) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32> loc("bias.grad")
    %16:2 = "msc.momentum"(%w, %w.m, %8) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<6x3xf32>, tensor<6x3xf32>, tensor<6x3xf32>) -> (tensor<6x3xf32>, tensor<6x3xf32>) loc("w.update")
    %17:2 = "msc.momentum"(%b, %b.m, %15) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) loc("b.update")
    "msc.return"(%11, %12, %16#0, %17#0, %16#1, %17#1) : (tensor<f32>, tensor<8x3xf32>, tensor<6x3xf32>, tensor<3xf32>, tensor<6x3xf32>, tensor<3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.5", msc.layerwise_parallel = true, msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.m", msc.owner = "b", msc.role = "state"}],
      loss = 0 : i64,
      manual = true,
      results = ["loss", "out", "w", "b", "w.m", "b.m"],
      sym_name = "train",
      ties = [-1, -1, 2, 3, 4, 5]} : () -> ()
}
