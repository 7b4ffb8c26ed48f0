// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x3xf32>, %b: tensor<3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32> loc("dense"("net.py":3:1))
    %1 = "msc.add"(%0, %b) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.return"(%2, %1) : (tensor<f32>, tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "b", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x3xf32>, %b: tensor<3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32> loc("dense"("net.py":3:1))
    %1 = "msc.add"(%0, %b) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "%2", letters = "Ac"} : (tensor<4x3xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x3xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0], forward = "%1", letters = "AB"} : (tensor<4x3xf32>) -> tensor<3xf32>
    %6 = "msc.matmul"(%x, %4) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<4x8xf32>, tensor<4x3xf32>) -> tensor<8x3xf32> loc("dense.grad"("net.py":3:1))
    "msc.return"(%2, %1, %6, %5) : (tensor<f32>, tensor<4x3xf32>, tensor<8x3xf32>, tensor<3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "b", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      gradients = [1, 2],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "logits", "w.grad", "b.grad"],
      sym_name = "forward"} : () -> ()
}
