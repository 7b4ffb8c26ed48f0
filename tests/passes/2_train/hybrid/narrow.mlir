// RUN: msc opt --set device_num=4 --set parallel_mode=hybrid_parallel --set compute_type=bf16 --set gradient_fp32_sync=false --set loss_scale=dynamic --passes=precision,loss_scale,autodiff,hybrid,optimizer,tidy %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>, %v: tensor<4x6xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32> loc("up")
    %1 = "msc.matmul"(%0, %v) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32> loc("down")
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32> loc("loss")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>, %v: tensor<4x6xf32>, %loss_scale: tensor<f32>, %loss_scale.good: tensor<f32>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<8x6xf32>) -> tensor<8x6xbf16> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x4xf32>) -> tensor<6x4xbf16> loc("w")
    %2 = "msc.matmul"(%0, %1) : (tensor<8x6xbf16>, tensor<6x4xbf16>) -> tensor<8x4xbf16> loc("up")
    %3 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("v")
    %4 = "msc.matmul"(%2, %3) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16> loc("down")
    %5 = "msc.cast"(%4) {dtype = "f32"} : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32> loc("loss")
    %7 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.softmax_cross_entropy_grad"(%5, %y, %loss_scale) {forward = "loss", letters = "Ac"} : (tensor<8x6xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x6xf32> loc("loss.grad")
    %9 = "msc.cast"(%8) {dtype = "bf16", forward = "%5", letters = "AB"} : (tensor<8x6xf32>) -> tensor<8x6xbf16>
    %10 = "msc.matmul"(%9, %3) {forward = "down", letters = "mnk", transpose_b = true} : (tensor<8x6xbf16>, tensor<4x6xbf16>) -> tensor<8x4xbf16> loc("down.grad")
    %11 = "msc.matmul"(%2, %9) {forward = "down", letters = "mkn", transpose_a = true} : (tensor<8x4xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16> loc("down.grad")
    %12 = "msc.matmul"(%0, %10) {forward = "up", letters = "mkn", transpose_a = true} : (tensor<8x6xbf16>, tensor<8x4xbf16>) -> tensor<6x4xbf16> loc("up.grad")
    %13 = "msc.all_reduce"(%6) {axes = "{d}"} : (tensor<f32>) -> tensor<f32> loc("loss")
    %14 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("loss")
    %15 = "msc.mul"(%13, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss")
    %16 = "msc.all_reduce"(%12) {axes = "{d}"} : (tensor<6x4xbf16>) -> tensor<6x4xbf16> loc("up.grad")
    %17 = "msc.cast"(%16) {dtype = "f32"} : (tensor<6x4xbf16>) -> tensor<6x4xf32> loc("w.grad")
    %18 = "msc.all_reduce"(%11) {axes = "{d}"} : (tensor<4x6xbf16>) -> tensor<4x6xbf16> loc("down.grad")
    %19 = "msc.cast"(%18) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32> loc("v.grad")
    %20 = "msc.div"(%7, %loss_scale) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %21 = "msc.mul"(%17, %20) : (tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32> loc("loss_scale")
    %22 = "msc.mul"(%19, %20) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32> loc("loss_scale")
    %23 = "msc.cast"(%21) {dtype = "f64"} : (tensor<6x4xf32>) -> tensor<6x4xf64> loc("loss_scale")
    %24 = "msc.mul"(%23, %23) : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<6x4xf64> loc("loss_scale")
    %25 = "msc.reduce_sum"(%24) {dims = [0, 1]} : (tensor<6x4xf64>) -> tensor<f64> loc("loss_scale")
    %26 = "msc.cast"(%22) {dtype = "f64"} : (tensor<4x6xf32>) -> tensor<4x6xf64> loc("loss_scale")
    %27 = "msc.mul"(%26, %26) : (tensor<4x6xf64>, tensor<4x6xf64>) -> tensor<4x6xf64> loc("loss_scale")
    %28 = "msc.reduce_sum"(%27) {dims = [0, 1]} : (tensor<4x6xf64>) -> tensor<f64> loc("loss_scale")
    %29 = "msc.add"(%25, %28) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("loss_scale")
    %30 = "msc.all_reduce"(%29) {axes = "{d}"} : (tensor<f64>) -> tensor<f64> loc("loss_scale")
    %31 = "msc.is_finite"(%30) : (tensor<f64>) -> tensor<i1> loc("loss_scale")
    %32 = "msc.add"(%loss_scale.good, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %33 = "msc.constant"() {value = dense<2.0e+03> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %34 = "msc.compare"(%32, %33) {predicate = "ge"} : (tensor<f32>, tensor<f32>) -> tensor<i1> loc("loss_scale")
    %35 = "msc.constant"() {value = dense<7.9228163e+28> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %36 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %37 = "msc.mul"(%loss_scale, %36) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %38 = "msc.min"(%37, %35) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %39 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %40 = "msc.mul"(%loss_scale, %39) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %41 = "msc.max"(%40, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %42 = "msc.select"(%34, %38, %loss_scale) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %43 = "msc.select"(%31, %42, %41) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %44 = "msc.assign"(%loss_scale, %43) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %45 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %46 = "msc.select"(%34, %45, %32) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %47 = "msc.select"(%31, %46, %45) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %48 = "msc.assign"(%loss_scale.good, %47) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss_scale")
    %49 = "msc.sgd"(%w, %21, %31) {lr = 1.0e-01 : f64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<i1>) -> tensor<6x4xf32> loc("w.update")
    %50 = "msc.sgd"(%v, %22, %31) {lr = 1.0e-01 : f64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<i1>) -> tensor<4x6xf32> loc("v.update")
    "msc.return"(%15, %49, %50, %44, %48) : (tensor<f32>, tensor<6x4xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.init = "constant:65536", msc.name = "loss_scale", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "loss_scale.good", msc.role = "state"}],
      loss = 0 : i64,
      manual = true,
      results = ["loss", "w", "v", "loss_scale", "loss_scale.good"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5]} : () -> ()
}
