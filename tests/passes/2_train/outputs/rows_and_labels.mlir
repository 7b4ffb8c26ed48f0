// RUN: msc opt --passes=outputs %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %3 = "msc.cumsum"(%0) {axis = 0 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.reshape"(%2) {shape = [32]} : (tensor<4x8xf32>) -> tensor<32xf32>
    "msc.return"(%1, %0, %2, %3, %w, %4) : (tensor<f32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<6x4xf32>, tensor<32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "logits", "turned", "mixed", "weight", "runs"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.outputs = [["loss", -1, true, "adds_up"], ["logits", 0, false, ""], ["turned", 1, false, ""], ["mixed", -1, false, ""], ["weight", -1, false, ""], ["runs", -1, false, ""]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %3 = "msc.cumsum"(%0) {axis = 0 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.reshape"(%2) {shape = [32]} : (tensor<4x8xf32>) -> tensor<32xf32>
    "msc.return"(%1, %0, %2, %3, %w, %4) : (tensor<f32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<6x4xf32>, tensor<32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "logits", "turned", "mixed", "weight", "runs"],
      sym_name = "forward"} : () -> ()
}
