// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --set full_batch=false --passes=strategies %s
// Who says so gets inputs whose batch is cut among all ranks, whatever their first user wants; unevenly where it does not divide.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x8xf32>, %z: tensor<8x4xf32>, %w: tensor<8x8xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[1, 4], [4, 1]]} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32> loc("dense1")
    %1 = "msc.relu"(%z) : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("relu1")
    "msc.return"(%0, %1) : (tensor<6x8xf32>, tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.batch_dim = 1 : i64, msc.name = "z", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x8xf32>, %z: tensor<8x4xf32>, %w: tensor<8x8xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[1, 4], [4, 1]], sharding = {k = "{d}", m = "{}", n = "{}"}} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32> loc("dense1")
    %1 = "msc.relu"(%z) {by = "default", sharding = {A = "{}", B = "{d}"}} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("relu1")
    "msc.return"(%0, %1) : (tensor<6x8xf32>, tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data"},
                   {msc.batch_dim = 1 : i64, msc.layout = "[{},{d}]", msc.name = "z", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
