// RUN: msc opt --set device_num=4 --set parallel_mode=data_parallel --passes=strategies %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x5xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32> loc("dense1")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64} : (tensor<8x5xf32>, tensor<8xi32>) -> tensor<f32> loc("loss1")
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x5xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "default", sharding = {k = "{}", m = "{d}", n = "{}"}} : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32> loc("dense1")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", ignore_index = -100 : i64, sharding = {A = "{d}", c = "{}"}} : (tensor<8x5xf32>, tensor<8xi32>) -> tensor<f32> loc("loss1")
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
