// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2xi32>, %w: tensor<4x6xf32>):
    %0 = "msc.reshape"(%w) {shape = [2, 2, 6]} : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
    %1 = "msc.transpose"(%0) {perm = [2, 0, 1]} : (tensor<2x2x6xf32>) -> tensor<6x2x2xf32>
    %2 = "msc.flatten"(%1) : (tensor<6x2x2xf32>) -> tensor<6x4xf32>
    %3:3 = "msc.split"(%2) {dim = 0 : i64, sizes = [1, 3, 2]} : (tensor<6x4xf32>) -> (tensor<1x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>)
    %4 = "msc.slice"(%3#1) {limit = [3, 4], start = [0, 1], stride = [2, 2]} : (tensor<3x4xf32>) -> tensor<2x2xf32>
    %5 = "msc.pad"(%4) {high = [0, 1], low = [0, 1]} : (tensor<2x2xf32>) -> tensor<2x4xf32>
    %6 = "msc.concat"(%5, %3#0) {dim = 0 : i64} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
    %7 = "msc.gather"(%6, %x) : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
    %8 = "msc.reduce_sum"(%7) {dims = [0, 1]} : (tensor<2x4xf32>) -> tensor<f32>
    "msc.return"(%8) : (tensor<f32>) -> ()
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
  ^bb0(%x: tensor<2xi32>, %w: tensor<4x6xf32>):
    %0 = "msc.reshape"(%w) {shape = [2, 2, 6]} : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
    %1 = "msc.transpose"(%0) {perm = [2, 0, 1]} : (tensor<2x2x6xf32>) -> tensor<6x2x2xf32>
    %2 = "msc.flatten"(%1) : (tensor<6x2x2xf32>) -> tensor<6x4xf32>
    %3:3 = "msc.split"(%2) {dim = 0 : i64, sizes = [1, 3, 2]} : (tensor<6x4xf32>) -> (tensor<1x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>)
    %4 = "msc.slice"(%3#1) {limit = [3, 4], start = [0, 1], stride = [2, 2]} : (tensor<3x4xf32>) -> tensor<2x2xf32>
    %5 = "msc.pad"(%4) {high = [0, 1], low = [0, 1]} : (tensor<2x2xf32>) -> tensor<2x4xf32>
    %6 = "msc.concat"(%5, %3#0) {dim = 0 : i64} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
    %7 = "msc.gather"(%6, %x) : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
    %8 = "msc.reduce_sum"(%7) {dims = [0, 1]} : (tensor<2x4xf32>) -> tensor<f32>
    %9 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %10 = "msc.broadcast_to"(%9) {forward = "%8", letters = "AB", shape = [2, 4]} : (tensor<f32>) -> tensor<2x4xf32>
    %11 = "msc.scatter_add"(%x, %10) {forward = "%7", letters = "Adv", rows = 3 : i64} : (tensor<2xi32>, tensor<2x4xf32>) -> tensor<3x4xf32>
    %12:2 = "msc.split"(%11) {dim = 0 : i64, forward = "%6", letters = "B", sizes = [2, 1]} : (tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<1x4xf32>)
    %13 = "msc.slice"(%12#0) {forward = "%5", letters = "A", limit = [2, 3], start = [0, 1]} : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %14 = "msc.pad"(%13) {forward = "%4", high = [0, 0], letters = "", low = [0, 1], stride = [2, 2]} : (tensor<2x2xf32>) -> tensor<3x4xf32>
    %15 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %16 = "msc.broadcast_to"(%15) {forward = "%3", letters = ".B", shape = [2, 4]} : (tensor<f32>) -> tensor<2x4xf32>
    %17 = "msc.concat"(%12#1, %14, %16) {dim = 0 : i64, forward = "%3", letters = "B"} : (tensor<1x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
    %18 = "msc.reshape"(%17) {forward = "%2", letters = "ABC", shape = [6, 2, 2]} : (tensor<6x4xf32>) -> tensor<6x2x2xf32>
    %19 = "msc.transpose"(%18) {forward = "%1", letters = "CAB", perm = [1, 2, 0]} : (tensor<6x2x2xf32>) -> tensor<2x2x6xf32>
    %20 = "msc.reshape"(%19) {forward = "%0", letters = "ABC", shape = [4, 6]} : (tensor<2x2x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%8, %20) : (tensor<f32>, tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
