// RUN: msc opt --set device_num=6 --set parallel_mode=semi_auto_parallel --passes=strategies %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("dense1")
    "msc.return"(%0) : (tensor<32x512xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=6">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "default", sharding = {k = "{}", m = "{d}", n = "{}"}} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("dense1")
    "msc.return"(%0) : (tensor<32x512xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
