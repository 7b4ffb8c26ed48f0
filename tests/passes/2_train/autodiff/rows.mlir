// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3xf32>, %w: tensor<2x3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = "msc.log_softmax"(%1) {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "msc.reduce_max"(%2) {dims = [1]} : (tensor<2x3xf32>) -> tensor<2xf32>
    %4 = "msc.reduce_min"(%3) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3xf32>, %w: tensor<2x3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = "msc.log_softmax"(%1) {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "msc.reduce_max"(%2) {dims = [1]} : (tensor<2x3xf32>) -> tensor<2xf32>
    %4 = "msc.reduce_min"(%3) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.broadcast_to"(%4) {forward = "%4", letters = "A", shape = [2]} : (tensor<f32>) -> tensor<2xf32>
    %7 = "msc.compare"(%3, %6) {forward = "%4", letters = "A", predicate = "eq"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    %8 = "msc.cast"(%7) {dtype = "f32", forward = "%4", letters = "A"} : (tensor<2xi1>) -> tensor<2xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [0], forward = "%4", letters = "A"} : (tensor<2xf32>) -> tensor<f32>
    %10 = "msc.div"(%5, %9) {forward = "%4", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "msc.broadcast_to"(%10) {forward = "%4", letters = "A", shape = [2]} : (tensor<f32>) -> tensor<2xf32>
    %12 = "msc.mul"(%8, %11) {forward = "%4", letters = "A"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %13 = "msc.reshape"(%3) {forward = "%3", letters = "A", shape = [2, 1]} : (tensor<2xf32>) -> tensor<2x1xf32>
    %14 = "msc.broadcast_to"(%13) {forward = "%3", letters = "AB", shape = [2, 3]} : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %15 = "msc.compare"(%2, %14) {forward = "%3", letters = "AB", predicate = "eq"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %16 = "msc.cast"(%15) {dtype = "f32", forward = "%3", letters = "AB"} : (tensor<2x3xi1>) -> tensor<2x3xf32>
    %17 = "msc.reduce_sum"(%16) {dims = [1], forward = "%3", letters = "AB"} : (tensor<2x3xf32>) -> tensor<2xf32>
    %18 = "msc.div"(%12, %17) {forward = "%3", letters = "A"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %19 = "msc.reshape"(%18) {forward = "%3", letters = "A", shape = [2, 1]} : (tensor<2xf32>) -> tensor<2x1xf32>
    %20 = "msc.broadcast_to"(%19) {forward = "%3", letters = "AB", shape = [2, 3]} : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %21 = "msc.mul"(%16, %20) {forward = "%3", letters = "AB"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %22 = "msc.reduce_sum"(%21) {dims = [0], forward = "%2", keep_dims = true, letters = "cA"} : (tensor<2x3xf32>) -> tensor<1x3xf32>
    %23 = "msc.exp"(%2) {forward = "%2", letters = "cA"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %24 = "msc.mul"(%23, %22) {forward = "%2", letters = "cA"} : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
    %25 = "msc.sub"(%21, %24) {forward = "%2", letters = "cA"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %26 = "msc.mul"(%25, %1) {forward = "%1", letters = "Ac"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %27 = "msc.reduce_sum"(%26) {dims = [1], forward = "%1", keep_dims = true, letters = "Ac"} : (tensor<2x3xf32>) -> tensor<2x1xf32>
    %28 = "msc.sub"(%25, %27) {forward = "%1", letters = "Ac"} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
    %29 = "msc.mul"(%1, %28) {forward = "%1", letters = "Ac"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %30 = "msc.mul"(%29, %x) {forward = "%0", letters = "AB"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "msc.return"(%4, %30) : (tensor<f32>, tensor<2x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      gradients = [1],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "w.grad"],
      sym_name = "forward"} : () -> ()
}
