// RUN: msc opt --passes=autodiff --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.all_gather"(%1) {axes = "{d}"} : (tensor<4xf32>) -> tensor<8xf32>
    %3 = "msc.reduce_scatter"(%2) {axes = "{d}"} : (tensor<8xf32>) -> tensor<4xf32>
    %4 = "msc.all_to_all"(%3) {axes = "{d}"} : (tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.permute"(%4) {axes = "{d}", pairs = [0, 1, 1, 0]} : (tensor<4xf32>) -> tensor<4xf32>
    %6 = "msc.broadcast"(%5) {axes = "{d}", root = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %7 = "msc.send"(%6) {axes = "{d}", from = 0 : i64, to = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %8 = "msc.recv"(%7) {axes = "{d}", from = 0 : i64, to = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%9) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.all_gather"(%1) {axes = "{d}"} : (tensor<4xf32>) -> tensor<8xf32>
    %3 = "msc.reduce_scatter"(%2) {axes = "{d}"} : (tensor<8xf32>) -> tensor<4xf32>
    %4 = "msc.all_to_all"(%3) {axes = "{d}"} : (tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.permute"(%4) {axes = "{d}", pairs = [0, 1, 1, 0]} : (tensor<4xf32>) -> tensor<4xf32>
    %6 = "msc.broadcast"(%5) {axes = "{d}", root = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %7 = "msc.send"(%6) {axes = "{d}", from = 0 : i64, to = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %8 = "msc.recv"(%7) {axes = "{d}", from = 0 : i64, to = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %10 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.broadcast_to"(%10) {forward = "%9", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %12 = "msc.send"(%11) {axes = "{d}", channel = 0 : i64, forward = "%8", from = 1 : i64, letters = "A", to = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %13 = "msc.recv"(%12) {axes = "{d}", channel = 0 : i64, forward = "%7", from = 1 : i64, letters = "A", to = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %14 = "msc.all_reduce"(%13) {axes = "{d}", forward = "%6", letters = "A"} : (tensor<4xf32>) -> tensor<4xf32>
    %15 = "msc.permute"(%14) {axes = "{d}", forward = "%6", letters = "A", pairs = [1, 1]} : (tensor<4xf32>) -> tensor<4xf32>
    %16 = "msc.permute"(%15) {axes = "{d}", forward = "%5", letters = "A", pairs = [1, 0, 0, 1]} : (tensor<4xf32>) -> tensor<4xf32>
    %17 = "msc.all_to_all"(%16) {axes = "{d}", concat_dim = 0 : i64, forward = "%4", letters = "A", split_dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %18 = "msc.all_gather"(%17) {axes = "{d}", dim = 0 : i64, forward = "%3", letters = "."} : (tensor<4xf32>) -> tensor<8xf32>
    %19 = "msc.reduce_scatter"(%18) {axes = "{d}", dim = 0 : i64, forward = "%2", letters = "."} : (tensor<8xf32>) -> tensor<4xf32>
    %20 = "msc.all_reduce"(%19) {axes = "{d}", forward = "%1", letters = "A"} : (tensor<4xf32>) -> tensor<4xf32>
    %21 = "msc.mul"(%20, %x) {forward = "%0", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%9, %21) : (tensor<f32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
