// RUN: msc opt --passes=micro --set micro_size=4 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>, %y: tensor<8xi1>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %2 = "msc.cast"(%y) {dtype = "i64"} : (tensor<8xi1>) -> tensor<8xi64>
    %3 = "msc.reduce_sum"(%2) {dims = [0]} : (tensor<8xi64>) -> tensor<i64>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<i64>) -> tensor<f32>
    %5 = "msc.div"(%1, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
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
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %y: tensor<2xi1>, %micro: tensor<i64>):
    %0 = "msc.mul"(%x, %w) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<2x4xf32>) -> tensor<f32>
    %2 = "msc.cast"(%y) {dtype = "i64"} : (tensor<2xi1>) -> tensor<2xi64>
    %3 = "msc.reduce_sum"(%2) {dims = [0]} : (tensor<2xi64>) -> tensor<i64>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<i64>) -> tensor<f32>
    %5 = "msc.div"(%1, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 4 : i64,
      micro_quotient = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
