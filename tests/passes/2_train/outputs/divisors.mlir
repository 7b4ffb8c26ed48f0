// RUN: msc opt --passes=outputs --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 3 : i64} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32> loc("loss")
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.outputs = [["loss", -1, true, ""], ["loss.divisor", -1, true, "divisor"]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 3 : i64} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32> loc("loss")
    %2 = "msc.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32> loc("loss")
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<8xi32>, tensor<i32>) -> tensor<8xi1> loc("loss")
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<8xi1>) -> tensor<8xf32> loc("loss")
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<8xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%1, %5) : (tensor<f32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "loss.divisor"],
      sym_name = "forward"} : () -> ()
}
