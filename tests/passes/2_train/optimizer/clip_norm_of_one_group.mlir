// RUN: msc opt --passes=optimizer --verify-diagnostics %s
module {
  // expected-error @below {{optimizer: clip_norm is of all gradients together; group 0 says 1, group 1 says 0}}
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
      optimizer = [{clip_norm = 1.0e+00 : f32, kind = "sgd", lr = 1.0e-01 : f32, parameters = ["w"]}, {kind = "sgd", lr = 1.0e-01 : f32, parameters = ["b"]}],
      results = ["loss", "w.grad", "b.grad"],
      sym_name = "forward"} : () -> ()
}
