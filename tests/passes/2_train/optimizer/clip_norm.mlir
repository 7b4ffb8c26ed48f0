// RUN: msc opt --passes=optimizer %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xbf16>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.cast"(%b) {dtype = "f32"} : (tensor<6xbf16>) -> tensor<6xf32>
    %2 = "msc.add"(%0, %1) : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<8x6xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.constant"() {value = dense<4.8e+01> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.div"(%4, %5) {forward = "%3", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "msc.broadcast_to"(%6) {forward = "%3", letters = "AB", shape = [8, 6]} : (tensor<f32>) -> tensor<8x6xf32>
    %8 = "msc.reduce_sum"(%7) {dims = [0], forward = "%2", letters = "AB"} : (tensor<8x6xf32>) -> tensor<6xf32>
    %9 = "msc.cast"(%8) {dtype = "bf16", forward = "%1", letters = "A"} : (tensor<6xf32>) -> tensor<6xbf16>
    %10 = "msc.matmul"(%x, %7) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%3, %10, %9) : (tensor<f32>, tensor<4x6xf32>, tensor<6xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      gradients = [1, 2],
      loss = 0 : i64,
      optimizer = {clip_norm = 1.0e+00 : f32, kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad", "b.grad"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xbf16>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.cast"(%b) {dtype = "f32"} : (tensor<6xbf16>) -> tensor<6xf32>
    %2 = "msc.add"(%0, %1) : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<8x6xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.constant"() {value = dense<4.8e+01> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.div"(%4, %5) {forward = "%3", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "msc.broadcast_to"(%6) {forward = "%3", letters = "AB", shape = [8, 6]} : (tensor<f32>) -> tensor<8x6xf32>
    %8 = "msc.reduce_sum"(%7) {dims = [0], forward = "%2", letters = "AB"} : (tensor<8x6xf32>) -> tensor<6xf32>
    %9 = "msc.cast"(%8) {dtype = "bf16", forward = "%1", letters = "A"} : (tensor<6xf32>) -> tensor<6xbf16>
    %10 = "msc.matmul"(%x, %7) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %11 = "msc.cast"(%10) {dtype = "f64"} : (tensor<4x6xf32>) -> tensor<4x6xf64> loc("clip_norm")
    %12 = "msc.mul"(%11, %11) : (tensor<4x6xf64>, tensor<4x6xf64>) -> tensor<4x6xf64> loc("clip_norm")
    %13 = "msc.reduce_sum"(%12) {dims = [0, 1]} : (tensor<4x6xf64>) -> tensor<f64> loc("clip_norm")
    %14 = "msc.cast"(%9) {dtype = "f64"} : (tensor<6xbf16>) -> tensor<6xf64> loc("clip_norm")
    %15 = "msc.mul"(%14, %14) : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64> loc("clip_norm")
    %16 = "msc.reduce_sum"(%15) {dims = [0]} : (tensor<6xf64>) -> tensor<f64> loc("clip_norm")
    %17 = "msc.add"(%13, %16) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %18 = "msc.sqrt"(%17) : (tensor<f64>) -> tensor<f64> loc("clip_norm")
    %19 = "msc.constant"() {value = dense<1.0e-06> : tensor<f64>} : () -> tensor<f64> loc("clip_norm")
    %20 = "msc.add"(%18, %19) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %21 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64> loc("clip_norm")
    %22 = "msc.div"(%21, %20) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %23 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64> loc("clip_norm")
    %24 = "msc.min"(%22, %23) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %25 = "msc.cast"(%24) {dtype = "f32"} : (tensor<f64>) -> tensor<f32> loc("clip_norm")
    %26 = "msc.mul"(%10, %25) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32> loc("clip_norm")
    %27 = "msc.cast"(%24) {dtype = "bf16"} : (tensor<f64>) -> tensor<bf16> loc("clip_norm")
    %28 = "msc.mul"(%9, %27) : (tensor<6xbf16>, tensor<bf16>) -> tensor<6xbf16> loc("clip_norm")
    %29 = "msc.sgd"(%w, %26) {lr = 1.0e-01 : f32} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("w.update")
    %30 = "msc.sgd"(%b, %28) {lr = 1.0e-01 : f32} : (tensor<6xbf16>, tensor<6xbf16>) -> tensor<6xbf16> loc("b.update")
    "msc.return"(%3, %29, %30) : (tensor<f32>, tensor<4x6xf32>, tensor<6xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w", "b"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
