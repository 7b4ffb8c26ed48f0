// RUN: msc opt --passes=outputs %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.uniform"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.mul"(%0, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.outputs = [["loss", -1, false, ""]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.uniform"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.mul"(%0, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
