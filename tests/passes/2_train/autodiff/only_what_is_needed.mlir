// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %u: tensor<3xf32>, %f: tensor<3xf32>, %y: tensor<4xi32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.exp"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.tanh"(%f) : (tensor<3xf32>) -> tensor<3xf32>
    %3 = "msc.add"(%0, %2) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %4 = "msc.mul"(%3, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %5 = "msc.compare"(%0, %1) {predicate = "gt"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
    %6 = "msc.select"(%5, %4, %3) : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %7 = "msc.cast"(%w) {dtype = "i32"} : (tensor<3xf32>) -> tensor<3xi32>
    %8 = "msc.softmax_cross_entropy"(%6, %y) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.return"(%8, %7) : (tensor<f32>, tensor<3xi32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "u", msc.role = "parameter", msc.trainable = false},
                   {msc.init = "uniform:0.5", msc.name = "f", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "whole"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %u: tensor<3xf32>, %f: tensor<3xf32>, %y: tensor<4xi32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.exp"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.tanh"(%f) : (tensor<3xf32>) -> tensor<3xf32>
    %3 = "msc.add"(%0, %2) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %4 = "msc.mul"(%3, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %5 = "msc.compare"(%0, %1) {predicate = "gt"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
    %6 = "msc.select"(%5, %4, %3) : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %7 = "msc.cast"(%w) {dtype = "i32"} : (tensor<3xf32>) -> tensor<3xi32>
    %8 = "msc.softmax_cross_entropy"(%6, %y) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %9 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %10 = "msc.softmax_cross_entropy_grad"(%6, %y, %9) {forward = "%8", letters = "Ac", reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x3xf32>
    %11 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %12 = "msc.select"(%5, %10, %11) {forward = "%6", letters = "AB"} : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %13 = "msc.select"(%5, %11, %10) {forward = "%6", letters = "AB"} : (tensor<4x3xi1>, tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %14 = "msc.mul"(%12, %1) {forward = "%4", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %15 = "msc.add"(%13, %14) {forward = "%3", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %16 = "msc.mul"(%15, %x) {forward = "%0", letters = "AB"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %17 = "msc.reduce_sum"(%16) {dims = [0], forward = "%0", letters = "AB"} : (tensor<4x3xf32>) -> tensor<3xf32>
    "msc.return"(%8, %7, %17) : (tensor<f32>, tensor<3xi32>, tensor<3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "u", msc.role = "parameter", msc.trainable = false},
                   {msc.init = "uniform:0.5", msc.name = "f", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "y", msc.role = "label"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "whole", "w.grad"],
      sym_name = "forward"} : () -> ()
}
