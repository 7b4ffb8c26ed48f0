// RUN: msc opt --passes=autodiff,optimizer,tidy --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xbf16>, %w: tensor<4xbf16>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<4xbf16>) -> tensor<4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "lamb", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xbf16>, %w: tensor<4xbf16>, %optimizer.step: tensor<f32>, %w.m: tensor<4xbf16>, %w.v: tensor<4xbf16>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<4xbf16>) -> tensor<4xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.broadcast_to"(%4) {forward = "%2", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %6 = "msc.cast"(%5) {dtype = "bf16", forward = "%1", letters = "A"} : (tensor<4xf32>) -> tensor<4xbf16>
    %7 = "msc.mul"(%6, %x) {forward = "%0", letters = "A"} : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
    %8 = "msc.add"(%optimizer.step, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("optimizer.step")
    %9:3 = "msc.lamb_moments"(%w, %w.m, %w.v, %7, %8) : (tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<f32>) -> (tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>) loc("w.update")
    %10 = "msc.cast"(%w) {dtype = "f64"} : (tensor<4xbf16>) -> tensor<4xf64> loc("w.update")
    %11 = "msc.mul"(%10, %10) : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64> loc("w.update")
    %12 = "msc.reduce_sum"(%11) {dims = [0]} : (tensor<4xf64>) -> tensor<f64> loc("w.update")
    %13 = "msc.cast"(%9#0) {dtype = "f64"} : (tensor<4xbf16>) -> tensor<4xf64> loc("w.update")
    %14 = "msc.mul"(%13, %13) : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64> loc("w.update")
    %15 = "msc.reduce_sum"(%14) {dims = [0]} : (tensor<4xf64>) -> tensor<f64> loc("w.update")
    %16 = "msc.sqrt"(%12) : (tensor<f64>) -> tensor<f64> loc("w.update")
    %17 = "msc.sqrt"(%15) : (tensor<f64>) -> tensor<f64> loc("w.update")
    %18 = "msc.min"(%16, %17) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("w.update")
    %19 = "msc.div"(%16, %17) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("w.update")
    %20 = "msc.constant"() {value = dense<0.0e+00> : tensor<f64>} : () -> tensor<f64> loc("w.update")
    %21 = "msc.compare"(%18, %20) {predicate = "gt"} : (tensor<f64>, tensor<f64>) -> tensor<i1> loc("w.update")
    %22 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64> loc("w.update")
    %23 = "msc.select"(%21, %19, %22) : (tensor<i1>, tensor<f64>, tensor<f64>) -> tensor<f64> loc("w.update")
    %24 = "msc.cast"(%23) {dtype = "bf16"} : (tensor<f64>) -> tensor<bf16> loc("w.update")
    %25 = "msc.lamb_apply"(%w, %9#0, %24) {lr = 1.0e-01 : f32} : (tensor<4xbf16>, tensor<4xbf16>, tensor<bf16>) -> tensor<4xbf16> loc("w.update")
    "msc.return"(%2, %25, %8, %9#1, %9#2) : (tensor<f32>, tensor<4xbf16>, tensor<f32>, tensor<4xbf16>, tensor<4xbf16>) -> ()
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
