// RUN: msc opt --set compute_type=bf16 --passes=precision,autodiff,optimizer,tidy %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4xi32>, %w: tensor<6x5xf32>, %b: tensor<5xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32> loc("dense")
    %1 = "msc.add"(%0, %b) : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32> loc("bias")
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<4x5xf32>, tensor<4xi32>) -> tensor<f32> loc("loss")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4xi32>, %w: tensor<6x5xf32>, %b: tensor<5xf32>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x5xf32>) -> tensor<6x5xbf16> loc("w")
    %2 = "msc.matmul"(%0, %1) : (tensor<4x6xbf16>, tensor<6x5xbf16>) -> tensor<4x5xbf16> loc("dense")
    %3 = "msc.cast"(%b) {dtype = "bf16"} : (tensor<5xf32>) -> tensor<5xbf16> loc("b")
    %4 = "msc.add"(%2, %3) : (tensor<4x5xbf16>, tensor<5xbf16>) -> tensor<4x5xbf16> loc("bias")
    %5 = "msc.cast"(%4) {dtype = "f32"} : (tensor<4x5xbf16>) -> tensor<4x5xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<4x5xf32>, tensor<4xi32>) -> tensor<f32> loc("loss")
    %7 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.softmax_cross_entropy_grad"(%5, %y, %7) {forward = "loss", letters = "Ac"} : (tensor<4x5xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x5xf32> loc("loss.grad")
    %9 = "msc.cast"(%8) {dtype = "bf16", forward = "%5", letters = "AB"} : (tensor<4x5xf32>) -> tensor<4x5xbf16>
    %10 = "msc.reduce_sum"(%9) {dims = [0], forward = "bias", letters = "AB"} : (tensor<4x5xbf16>) -> tensor<5xbf16> loc("bias.grad")
    %11 = "msc.cast"(%10) {dtype = "f32", forward = "b", letters = "A"} : (tensor<5xbf16>) -> tensor<5xf32> loc("b.grad")
    %12 = "msc.matmul"(%0, %9) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<4x6xbf16>, tensor<4x5xbf16>) -> tensor<6x5xbf16> loc("dense.grad")
    %13 = "msc.cast"(%12) {dtype = "f32", forward = "w", letters = "AB"} : (tensor<6x5xbf16>) -> tensor<6x5xf32> loc("w.grad")
    %14 = "msc.sgd"(%w, %13) {lr = 1.0e-01 : f64} : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32> loc("w.update")
    %15 = "msc.sgd"(%b, %11) {lr = 1.0e-01 : f64} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32> loc("b.update")
    "msc.return"(%6, %14, %15) : (tensor<f32>, tensor<6x5xf32>, tensor<5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w", "b"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
