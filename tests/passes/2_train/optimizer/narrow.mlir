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
    %10 = "msc.cast"(%w) {dtype = "f32"} : (tensor<4xbf16>) -> tensor<4xf32> loc("w.update")
    %11 = "msc.mul"(%10, %10) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("w.update")
    %12 = "msc.reduce_sum"(%11) {dims = [0]} : (tensor<4xf32>) -> tensor<f32> loc("w.update")
    %13 = "msc.sqrt"(%12) : (tensor<f32>) -> tensor<f32> loc("w.update")
    %14 = "msc.cast"(%9#0) {dtype = "f32"} : (tensor<4xbf16>) -> tensor<4xf32> loc("w.update")
    %15 = "msc.mul"(%14, %14) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("w.update")
    %16 = "msc.reduce_sum"(%15) {dims = [0]} : (tensor<4xf32>) -> tensor<f32> loc("w.update")
    %17 = "msc.sqrt"(%16) : (tensor<f32>) -> tensor<f32> loc("w.update")
    %18 = "msc.min"(%13, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("w.update")
    %19 = "msc.div"(%13, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("w.update")
    %20 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc("w.update")
    %21 = "msc.compare"(%18, %20) {predicate = "gt"} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc("w.update")
    %22 = "msc.select"(%21, %19, %3) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("w.update")
    %23 = "msc.cast"(%22) {dtype = "bf16"} : (tensor<f32>) -> tensor<bf16> loc("w.update")
    %24 = "msc.lamb_apply"(%w, %9#0, %23) {lr = 1.0e-01 : f32} : (tensor<4xbf16>, tensor<4xbf16>, tensor<bf16>) -> tensor<4xbf16> loc("w.update")
    "msc.return"(%2, %24, %8, %9#1, %9#2) : (tensor<f32>, tensor<4xbf16>, tensor<f32>, tensor<4xbf16>, tensor<4xbf16>) -> ()
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
