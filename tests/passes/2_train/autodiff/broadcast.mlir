// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %v: tensor<4x1xf32>, %s: tensor<f32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.sub"(%0, %v) : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
    %2 = "msc.div"(%1, %s) : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "v", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "s", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %v: tensor<4x1xf32>, %s: tensor<f32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.sub"(%0, %v) : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
    %2 = "msc.div"(%1, %s) : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.constant"() {value = dense<1.2e+01> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.div"(%4, %5) {forward = "%3", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "msc.broadcast_to"(%6) {forward = "%3", letters = "AB", shape = [4, 3]} : (tensor<f32>) -> tensor<4x3xf32>
    %8 = "msc.div"(%7, %s) {forward = "%2", letters = "AB"} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %9 = "msc.mul"(%7, %2) {forward = "%2", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %10 = "msc.div"(%9, %s) {forward = "%2", letters = "AB"} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %11 = "msc.neg"(%10) {forward = "%2", letters = "AB"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %12 = "msc.reduce_sum"(%11) {dims = [0, 1], forward = "%2", letters = "AB"} : (tensor<4x3xf32>) -> tensor<f32>
    %13 = "msc.reduce_sum"(%8) {dims = [1], forward = "%1", keep_dims = true, letters = "AB"} : (tensor<4x3xf32>) -> tensor<4x1xf32>
    %14 = "msc.neg"(%13) {forward = "%1", letters = "A."} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %15 = "msc.mul"(%8, %x) {forward = "%0", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %16 = "msc.reduce_sum"(%15) {dims = [0], forward = "%0", letters = "AB"} : (tensor<4x3xf32>) -> tensor<3xf32>
    "msc.return"(%3, %16, %14, %12) : (tensor<f32>, tensor<3xf32>, tensor<4x1xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "v", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "s", msc.role = "parameter"}],
      gradients = [1, 2, 3],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad", "v.grad", "s.grad"],
      sym_name = "forward"} : () -> ()
}
