// RUN: msc opt --passes=autodiff,optimizer,tidy --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {eps = 1.0e-06 : f32, kind = "lamb", lr = 1.0e-01 : f32, weight_decay = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %optimizer.step: tensor<f32>, %w.m: tensor<4xf32>, %w.v: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.mul"(%3, %x) {forward = "%0", letters = "A"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.add"(%optimizer.step, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("optimizer.step")
    %6:3 = "msc.lamb_moments"(%w, %w.m, %w.v, %4, %5) {eps = 1.0e-06 : f32, weight_decay = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) loc("w.update")
    %7 = "msc.cast"(%w) {dtype = "f64"} : (tensor<4xf32>) -> tensor<4xf64> loc("w.update")
    %8 = "msc.mul"(%7, %7) : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64> loc("w.update")
    %9 = "msc.reduce_sum"(%8) {dims = [0]} : (tensor<4xf64>) -> tensor<f64> loc("w.update")
    %10 = "msc.cast"(%6#0) {dtype = "f64"} : (tensor<4xf32>) -> tensor<4xf64> loc("w.update")
    %11 = "msc.mul"(%10, %10) : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64> loc("w.update")
    %12 = "msc.reduce_sum"(%11) {dims = [0]} : (tensor<4xf64>) -> tensor<f64> loc("w.update")
    %13 = "msc.sqrt"(%9) : (tensor<f64>) -> tensor<f64> loc("w.update")
    %14 = "msc.sqrt"(%12) : (tensor<f64>) -> tensor<f64> loc("w.update")
    %15 = "msc.min"(%13, %14) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("w.update")
    %16 = "msc.div"(%13, %14) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("w.update")
    %17 = "msc.constant"() {value = dense<0.0e+00> : tensor<f64>} : () -> tensor<f64> loc("w.update")
    %18 = "msc.compare"(%15, %17) {predicate = "gt"} : (tensor<f64>, tensor<f64>) -> tensor<i1> loc("w.update")
    %19 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64> loc("w.update")
    %20 = "msc.select"(%18, %16, %19) : (tensor<i1>, tensor<f64>, tensor<f64>) -> tensor<f64> loc("w.update")
    %21 = "msc.cast"(%20) {dtype = "f32"} : (tensor<f64>) -> tensor<f32> loc("w.update")
    %22 = "msc.lamb_apply"(%w, %6#0, %21) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("w.update")
    "msc.return"(%1, %22, %5, %6#1, %6#2) : (tensor<f32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "optimizer.step", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "optimizer.step", "w.m", "w.v"],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4]} : () -> ()
}
