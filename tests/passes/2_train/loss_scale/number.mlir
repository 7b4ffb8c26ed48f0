// RUN: msc opt --set loss_scale=1024 --passes=loss_scale,autodiff,optimizer,tidy %s
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
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4x5xf32>, %w: tensor<6x5xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32> loc("dense")
    %1 = "msc.mean_squared_error"(%0, %y) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<f32> loc("loss")
    %2 = "msc.constant"() {value = dense<1.024e+03> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.vjp"(%0, %y, %2) {forward = "loss", letters = "AB", of = [0], op = "mean_squared_error", wrt = [0]} : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32> loc("loss.grad")
    %4 = "msc.matmul"(%x, %3) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<4x6xf32>, tensor<4x5xf32>) -> tensor<6x5xf32> loc("dense.grad")
    %5 = "msc.constant"() {value = dense<9.765625e-04> : tensor<f32>} : () -> tensor<f32> loc("loss_scale")
    %6 = "msc.mul"(%4, %5) : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32> loc("loss_scale")
    %7 = "msc.sgd"(%w, %6) {lr = 1.0e-01 : f64} : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32> loc("w.update")
    "msc.return"(%1, %7) : (tensor<f32>, tensor<6x5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 2]} : () -> ()
}
