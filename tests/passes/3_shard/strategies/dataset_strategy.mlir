// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --set dataset_strategy=[[4,2]] --passes=strategies %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[4, 2], [2, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("dense1")
    "msc.return"(%0) : (tensor<32x512xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[4, 2], [2, 1]], sharding = {k = "{d:(4)2}", m = "{d:(1)4}", n = "{}"}} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("dense1")
    "msc.return"(%0) : (tensor<32x512xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d:(1)4},{d:(4)2}]", msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
