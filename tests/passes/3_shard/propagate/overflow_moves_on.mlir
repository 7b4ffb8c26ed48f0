// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=propagate %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>):
    %0 = "msc.relu"(%x) {by = "user", sharding = {A = "{d}", B = "{}"}} : (tensor<32x16xf32>) -> tensor<32x16xf32>
    %1 = "msc.reshape"(%0) {shape = [4, 8, 16]} : (tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %2 = "msc.exp"(%1) : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    "msc.return"(%2) : (tensor<4x8x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>):
    %0 = "msc.relu"(%x) {by = "user", sharding = {A = "{d}", B = "{}"}} : (tensor<32x16xf32>) -> tensor<32x16xf32>
    %1 = "msc.reshape"(%0) {by = "propagation", shape = [4, 8, 16], sharding = {A = "{d:(1)4}", B = "{d:(4)2}"}} : (tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %2 = "msc.exp"(%1) {by = "propagation", sharding = {A = "{d:(1)4}", B = "{d:(4)2}"}} : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    "msc.return"(%2) : (tensor<4x8x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
