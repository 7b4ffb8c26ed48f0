// RUN: msc opt --passes=micro --set micro_size=4 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64} : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
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
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %y: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<-100> : tensor<i32>} : () -> tensor<i32>
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<2xi32>, tensor<i32>) -> tensor<2xi1>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<2xi1>) -> tensor<2xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %6 = "msc.div"(%1, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
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
