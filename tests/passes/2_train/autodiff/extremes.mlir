// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<3xf32>, %w: tensor<3xf32>, %v: tensor<1xf32>):
    %0 = "msc.max"(%x, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %1 = "msc.min"(%0, %v) : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<3xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<3xf32>, %w: tensor<3xf32>, %v: tensor<1xf32>):
    %0 = "msc.max"(%x, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %1 = "msc.min"(%0, %v) : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<3xf32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.broadcast_to"(%3) {forward = "%2", letters = "A", shape = [3]} : (tensor<f32>) -> tensor<3xf32>
    %5 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.mul"(%4, %5) {forward = "%1", letters = "A"} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    %7 = "msc.compare"(%0, %v) {forward = "%1", letters = "A", predicate = "eq"} : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xi1>
    %8 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %9 = "msc.compare"(%0, %v) {forward = "%1", letters = "A", predicate = "lt"} : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xi1>
    %10 = "msc.select"(%9, %4, %8) {forward = "%1", letters = "A"} : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    %11 = "msc.select"(%7, %6, %10) {forward = "%1", letters = "A"} : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %12 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %13 = "msc.compare"(%v, %0) {forward = "%1", letters = "A", predicate = "lt"} : (tensor<1xf32>, tensor<3xf32>) -> tensor<3xi1>
    %14 = "msc.select"(%13, %4, %12) {forward = "%1", letters = "A"} : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    %15 = "msc.select"(%7, %6, %14) {forward = "%1", letters = "A"} : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %16 = "msc.reduce_sum"(%15) {dims = [0], forward = "%1", keep_dims = true, letters = "A"} : (tensor<3xf32>) -> tensor<1xf32>
    %17 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %18 = "msc.mul"(%11, %17) {forward = "%0", letters = "A"} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    %19 = "msc.compare"(%x, %w) {forward = "%0", letters = "A", predicate = "eq"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %20 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %21 = "msc.compare"(%w, %x) {forward = "%0", letters = "A", predicate = "gt"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %22 = "msc.select"(%21, %11, %20) {forward = "%0", letters = "A"} : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    %23 = "msc.select"(%19, %18, %22) {forward = "%0", letters = "A"} : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "msc.return"(%2, %23, %16) : (tensor<f32>, tensor<3xf32>, tensor<1xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "v", msc.role = "parameter"}],
      gradients = [1, 2],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad", "v.grad"],
      sym_name = "forward"} : () -> ()
}
