// RUN: msc opt --passes=autodiff,optimizer,tidy,recompute,cse,fold %s
// Marked ops alone: each result that the backward uses is computed again, from what is kept.  Neither cse nor fold merges it with the first.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.sin"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.tanh"(%0) {recompute = true} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.sigmoid"(%1) {recompute = true} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.matmul"(%2, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %4 = "msc.tanh"(%3) {recompute = false} : (tensor<8x3xf32>) -> tensor<8x3xf32>
    %5 = "msc.softmax_cross_entropy"(%4, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.sin"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.tanh"(%0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.sigmoid"(%1) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.matmul"(%2, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %4 = "msc.tanh"(%3) : (tensor<8x3xf32>) -> tensor<8x3xf32>
    %5 = "msc.softmax_cross_entropy"(%4, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %6 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %7 = "msc.softmax_cross_entropy_grad"(%4, %y, %6) {forward = "%5", letters = "Ac"} : (tensor<8x3xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x3xf32>
    %8 = "msc.mul"(%4, %4) {forward = "%4", letters = "AB"} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %9 = "msc.sub"(%6, %8) {forward = "%4", letters = "AB"} : (tensor<f32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %10 = "msc.mul"(%7, %9) {forward = "%4", letters = "AB"} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %11 = "msc.tanh"(%0) {recompute = true} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %12 = "msc.sigmoid"(%11) {recompute = true} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %13 = "msc.matmul"(%12, %10) {forward = "%3", letters = "mkn", transpose_a = true} : (tensor<8x6xf32>, tensor<8x3xf32>) -> tensor<6x3xf32>
    %14 = "msc.sgd"(%w, %13) {lr = 1.0e-01 : f32} : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<6x3xf32> loc("w.update")
    "msc.return"(%5, %14) : (tensor<f32>, tensor<6x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
