// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --from=layouts --until=redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>):
    %0 = "msc.reduce_max"(%x) {by = "user", dims = [0], sharding = {A = "{d}", B = "{}"}} : (tensor<8x6xf32>) -> tensor<6xf32>
    %1 = "msc.neg"(%0) {by = "search", sharding = {A = "{}"}} : (tensor<6xf32>) -> tensor<6xf32>
    "msc.return"(%1) : (tensor<6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.reduce_max"(%x) {by = "user", dims = [0]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial_max={d}">>
    %1 = "msc.all_reduce"(%0) {reduction = "max"} : (tensor<6xf32, #msc.layout<"[{}] partial_max={d}">>) -> tensor<6xf32, #msc.layout<"[{}]">>
    %2 = "msc.neg"(%1) {by = "search"} : (tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{}]">>
    "msc.return"(%2) {in_layout = ["[{}]"]} : (tensor<6xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
