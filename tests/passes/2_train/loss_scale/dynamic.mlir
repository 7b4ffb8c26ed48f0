// RUN: msc opt --set loss_scale=dynamic --set loss_scale_config={\"window\":100} --passes=loss_scale,autodiff,optimizer,tidy %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4x5xf32>, %w: tensor<6x5xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32> loc("dense")
    %1 = "msc.mean_squared_error"(%0, %y) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "adam", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4x5xf32>, %w: tensor<6x5xf32>, %loss_scale: tensor<f32>, %loss_scale.good: tensor<f32>, %optimizer.step: tensor<f32>, %w.m: tensor<6x5xf32>, %w.v: tensor<6x5xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32> loc("dense")
    %1 = "msc.mean_squared_error"(%0, %y) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<f32> loc("loss")
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.vjp"(%0, %y, %loss_scale) {forward = "loss", letters = "AB", of = [0], op = "mean_squared_error", wrt = [0]} : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32> loc("loss.grad")
    %4 = "msc.matmul"(%x, %3) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<4x6xf32>, tensor<4x5xf32>) -> tensor<6x5xf32> loc("dense.grad")
    %5 = "msc.div"(%2, %loss_scale) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %6 = "msc.mul"(%4, %5) : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32> loc("loss_scale")
    %7 = "msc.cast"(%6) {dtype = "f64"} : (tensor<6x5xf32>) -> tensor<6x5xf64> loc("loss_scale")
    %8 = "msc.mul"(%7, %7) : (tensor<6x5xf64>, tensor<6x5xf64>) -> tensor<6x5xf64> loc("loss_scale")
    %9 = "msc.reduce_sum"(%8) {dims = [0, 1]} : (tensor<6x5xf64>) -> tensor<f64> loc("loss_scale")
    %10 = "msc.is_finite"(%9) : (tensor<f64>) -> tensor<i1> loc("loss_scale")
    %11 = "msc.add"(%loss_scale.good, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %12 = "msc.constant"() {value = dense<1.0e+02> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %13 = "msc.compare"(%11, %12) {predicate = "ge"} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc("loss_scale")
    %14 = "msc.constant"() {value = dense<7.9228163e+28> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %15 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %16 = "msc.mul"(%loss_scale, %15) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %17 = "msc.min"(%16, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %18 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %19 = "msc.mul"(%loss_scale, %18) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %20 = "msc.max"(%19, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %21 = "msc.select"(%13, %17, %loss_scale) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %22 = "msc.select"(%10, %21, %20) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %23 = "msc.assign"(%loss_scale, %22) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %24 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %25 = "msc.select"(%13, %24, %11) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %26 = "msc.select"(%10, %25, %24) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %27 = "msc.assign"(%loss_scale.good, %26) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %28 = "msc.add"(%optimizer.step, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("optimizer.step")
    %29 = "msc.assign"(%optimizer.step, %28, %10) : (tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<f32> loc("optimizer.step")
    %30:3 = "msc.adam"(%w, %w.m, %w.v, %6, %28, %10) {lr = 1.0e-01 : f64} : (tensor<6x5xf32>, tensor<6x5xf32>, tensor<6x5xf32>, tensor<6x5xf32>, tensor<f32>, tensor<i1>) -> (tensor<6x5xf32>, tensor<6x5xf32>, tensor<6x5xf32>) loc("w.update")
    "msc.return"(%1, %30#0, %23, %27, %29, %30#1, %30#2) : (tensor<f32>, tensor<6x5xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<6x5xf32>, tensor<6x5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "constant:65536", msc.name = "loss_scale", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "loss_scale.good", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "optimizer.step", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "loss_scale", "loss_scale.good", "optimizer.step", "w.m", "w.v"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5, 6, 7]} : () -> ()
}
