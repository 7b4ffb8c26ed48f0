// RUN: msc opt --passes=outputs %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<1x6xf32>, %y: tensor<1xi32>, %w: tensor<6x4xf32>, %b: tensor<1x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<1x6xf32>, tensor<6x4xf32>) -> tensor<1x4xf32>
    %1 = "msc.add"(%0, %b) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<1x4xf32>, tensor<1xi32>) -> tensor<f32>
    %3 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<1x4xf32>) -> tensor<4x1xf32>
    %4 = "msc.reshape"(%1) {shape = [1, 2, 2]} : (tensor<1x4xf32>) -> tensor<1x2x2xf32>
    %5 = "msc.reshape"(%1) {shape = [4]} : (tensor<1x4xf32>) -> tensor<4xf32>
    %6 = "msc.neg"(%b) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    "msc.return"(%2, %1, %3, %4, %5, %6) : (tensor<f32>, tensor<1x4xf32>, tensor<4x1xf32>, tensor<1x2x2xf32>, tensor<4xf32>, tensor<1x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "logits", "turned", "halves", "row", "bias"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.outputs = [["loss", -1, true, ""], ["logits", 0, false, ""], ["turned", 1, false, ""], ["halves", 0, false, ""], ["row", -1, false, ""], ["bias", -1, false, ""]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<1x6xf32>, %y: tensor<1xi32>, %w: tensor<6x4xf32>, %b: tensor<1x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<1x6xf32>, tensor<6x4xf32>) -> tensor<1x4xf32>
    %1 = "msc.add"(%0, %b) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<1x4xf32>, tensor<1xi32>) -> tensor<f32>
    %3 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<1x4xf32>) -> tensor<4x1xf32>
    %4 = "msc.reshape"(%1) {shape = [1, 2, 2]} : (tensor<1x4xf32>) -> tensor<1x2x2xf32>
    %5 = "msc.reshape"(%1) {shape = [4]} : (tensor<1x4xf32>) -> tensor<4xf32>
    %6 = "msc.neg"(%b) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    "msc.return"(%2, %1, %3, %4, %5, %6) : (tensor<f32>, tensor<1x4xf32>, tensor<4x1xf32>, tensor<1x2x2xf32>, tensor<4xf32>, tensor<1x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "logits", "turned", "halves", "row", "bias"],
      sym_name = "forward"} : () -> ()
}
