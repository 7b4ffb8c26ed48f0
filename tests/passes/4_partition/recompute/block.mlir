// RUN: msc opt --passes=autodiff,optimizer,tidy,recompute %s
// A block's ops carry its name.  %3 leaves it and is kept; %1 and %2 are computed again from %0, just before the backward first wants them.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x12xf32>, %w2: tensor<12x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.tanh"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%0, %w1) {recompute = "layer"} : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
    %2 = "msc.silu"(%1) {recompute = "layer"} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %3 = "msc.matmul"(%2, %w2) {recompute = "layer"} : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %4 = "msc.softmax_cross_entropy"(%3, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x12xf32>, %w2: tensor<12x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.tanh"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%0, %w1) : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
    %2 = "msc.silu"(%1) : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %3 = "msc.matmul"(%2, %w2) : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %4 = "msc.softmax_cross_entropy"(%3, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.softmax_cross_entropy_grad"(%3, %y, %5) {forward = "%4", letters = "Ac"} : (tensor<8x3xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x3xf32>
    %7 = "msc.matmul"(%6, %w2) {forward = "%3", letters = "mnk", transpose_b = true} : (tensor<8x3xf32>, tensor<12x3xf32>) -> tensor<8x12xf32>
    %8 = "msc.matmul"(%0, %w1) {recompute = true} : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
    %9 = "msc.silu"(%8) {recompute = true} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %10 = "msc.matmul"(%9, %6) {forward = "%3", letters = "mkn", transpose_a = true} : (tensor<8x12xf32>, tensor<8x3xf32>) -> tensor<12x3xf32>
    %11 = "msc.sigmoid"(%8) {forward = "%2", letters = "AB"} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %12 = "msc.sub"(%5, %11) {forward = "%2", letters = "AB"} : (tensor<f32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %13 = "msc.mul"(%8, %12) {forward = "%2", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %14 = "msc.add"(%13, %5) {forward = "%2", letters = "AB"} : (tensor<8x12xf32>, tensor<f32>) -> tensor<8x12xf32>
    %15 = "msc.mul"(%11, %14) {forward = "%2", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %16 = "msc.mul"(%7, %15) {forward = "%2", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %17 = "msc.matmul"(%0, %16) {forward = "%1", letters = "mkn", transpose_a = true} : (tensor<8x6xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
    %18 = "msc.sgd"(%w1, %17) {lr = 1.0e-01 : f32} : (tensor<6x12xf32>, tensor<6x12xf32>) -> tensor<6x12xf32> loc("w1.update")
    %19 = "msc.sgd"(%w2, %10) {lr = 1.0e-01 : f32} : (tensor<12x3xf32>, tensor<12x3xf32>) -> tensor<12x3xf32> loc("w2.update")
    "msc.return"(%4, %18, %19) : (tensor<f32>, tensor<6x12xf32>, tensor<12x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      results = ["loss", "w1", "w2"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
