// RUN: msc opt --passes=autodiff,optimizer,tidy,recompute %s
// With recompute_saving, as recompute = auto sets it, the pass marks ops itself: the sigmoid is cheap and is computed again.  The user's false counts.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x64xf32>, %w2: tensor<64x6xf32>, %y: tensor<8xi32>):
    %0 = "msc.sin"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%0, %w1) : (tensor<8x6xf32>, tensor<6x64xf32>) -> tensor<8x64xf32>
    %2 = "msc.tanh"(%1) {recompute = false} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %3 = "msc.sigmoid"(%2) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %4 = "msc.matmul"(%3, %w2) : (tensor<8x64xf32>, tensor<64x6xf32>) -> tensor<8x6xf32>
    %5 = "msc.add"(%0, %4) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %6 = "msc.sin"(%5) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %7 = "msc.softmax_cross_entropy"(%6, %y) : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%7) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      recompute_saving = 1500 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x64xf32>, %w2: tensor<64x6xf32>, %y: tensor<8xi32>):
    %0 = "msc.sin"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%0, %w1) : (tensor<8x6xf32>, tensor<6x64xf32>) -> tensor<8x64xf32>
    %2 = "msc.tanh"(%1) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %3 = "msc.sigmoid"(%2) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %4 = "msc.matmul"(%3, %w2) : (tensor<8x64xf32>, tensor<64x6xf32>) -> tensor<8x6xf32>
    %5 = "msc.add"(%0, %4) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %6 = "msc.sin"(%5) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %7 = "msc.softmax_cross_entropy"(%6, %y) : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32>
    %8 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %9 = "msc.softmax_cross_entropy_grad"(%6, %y, %8) {forward = "%7", letters = "Ac"} : (tensor<8x6xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x6xf32>
    %10 = "msc.cos"(%5) {forward = "%6", letters = "AB"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %11 = "msc.mul"(%9, %10) {forward = "%6", letters = "AB"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %12 = "msc.matmul"(%11, %w2) {forward = "%4", letters = "mnk", transpose_b = true} : (tensor<8x6xf32>, tensor<64x6xf32>) -> tensor<8x64xf32>
    %13 = "msc.sigmoid"(%2) {recompute = true} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %14 = "msc.matmul"(%13, %11) {forward = "%4", letters = "mkn", transpose_a = true} : (tensor<8x64xf32>, tensor<8x6xf32>) -> tensor<64x6xf32>
    %15 = "msc.sub"(%8, %13) {forward = "%3", letters = "AB"} : (tensor<f32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %16 = "msc.mul"(%13, %15) {forward = "%3", letters = "AB"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %17 = "msc.mul"(%12, %16) {forward = "%3", letters = "AB"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %18 = "msc.mul"(%2, %2) {forward = "%2", letters = "AB"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %19 = "msc.sub"(%8, %18) {forward = "%2", letters = "AB"} : (tensor<f32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %20 = "msc.mul"(%17, %19) {forward = "%2", letters = "AB"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %21 = "msc.matmul"(%0, %20) {forward = "%1", letters = "mkn", transpose_a = true} : (tensor<8x6xf32>, tensor<8x64xf32>) -> tensor<6x64xf32>
    %22 = "msc.sgd"(%w1, %21) {lr = 1.0e-01 : f32} : (tensor<6x64xf32>, tensor<6x64xf32>) -> tensor<6x64xf32> loc("w1.update")
    %23 = "msc.sgd"(%w2, %14) {lr = 1.0e-01 : f32} : (tensor<64x6xf32>, tensor<64x6xf32>) -> tensor<64x6xf32> loc("w2.update")
    "msc.return"(%7, %22, %23) : (tensor<f32>, tensor<6x64xf32>, tensor<64x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      recompute_saving = 1500 : i64,
      results = ["loss", "w1", "w2"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
