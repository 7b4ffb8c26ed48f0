// RUN: msc opt --set device_num=6 --set parallel_mode=semi_auto_parallel --passes=strategies %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<12x12xf32>, %w: tensor<12x12xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[2, 1], [1, 3]]} : (tensor<12x12xf32>, tensor<12x12xf32>) -> tensor<12x12xf32> loc("dense1")
    %1 = "msc.relu"(%0) {in_layout = ["[{d:(1)3},{d:(3)2}]"]} : (tensor<12x12xf32>) -> tensor<12x12xf32> loc("relu1")
    "msc.return"(%1) : (tensor<12x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=6">} {
  "msc.func"() ({
  ^bb0(%x: tensor<12x12xf32>, %w: tensor<12x12xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[2, 1], [1, 3]], sharding = {k = "{}", m = "{d:(3)2}", n = "{d:(1)3}"}} : (tensor<12x12xf32>, tensor<12x12xf32>) -> tensor<12x12xf32> loc("dense1")
    %1 = "msc.relu"(%0) {by = "user", sharding = {A = "{d:(1)3}", B = "{d:(3)2}"}} : (tensor<12x12xf32>) -> tensor<12x12xf32> loc("relu1")
    "msc.return"(%1) : (tensor<12x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
