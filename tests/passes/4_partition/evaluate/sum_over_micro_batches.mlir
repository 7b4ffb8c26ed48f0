// RUN: msc opt --passes=micro,autodiff,optimizer,evaluate --set micro_size=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>, %w: tensor<f32>, %k: tensor<8xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = "msc.mul"(%0, %k) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    %3 = "msc.reduce_sum"(%k) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.max"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.div"(%2, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "k", msc.role = "data"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<f32>, %k: tensor<4xf32>, %micro: tensor<i64>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = "msc.mul"(%0, %k) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %3 = "msc.reduce_sum"(%k) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %4 = "msc.accumulate"(%3) {count = 2 : i64, mean = false} : (tensor<f32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.max"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "msc.div"(%2, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %9 = "msc.broadcast_to"(%8) {forward = "%2", letters = "A", shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %10 = "msc.mul"(%9, %k) {forward = "%1", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %11 = "msc.mul"(%10, %x) {forward = "%0", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %12 = "msc.reduce_sum"(%11) {dims = [0], forward = "%0", letters = "A"} : (tensor<4xf32>) -> tensor<f32>
    %13 = "msc.div"(%12, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %14 = "msc.sgd"(%w, %13) {lr = 1.0e-01 : f32} : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("w.update")
    "msc.return"(%7, %14) : (tensor<f32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "k", msc.role = "data"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_quotient = true,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<f32>, %k: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = "msc.mul"(%0, %k) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %3 = "msc.reduce_sum"(%k) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.max"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.div"(%2, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "k", msc.role = "data"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_quotient = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
