// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.exp"(%x) {in_layout = ["[{},{}]"]} : (tensor<16x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.mul"(%0, %x) {in_layout = ["[{},{}]", "[{},{}]"]} : (tensor<16x8xf32, #msc.layout<"[{},{}]">>, tensor<16x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%1) {in_layout = ["[{},{}]"]} : (tensor<16x8xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.all_gather"(%x) : (tensor<16x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.exp"(%0) : (tensor<16x8xf32, #msc.layout<"[{},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.mul"(%1, %0) : (tensor<16x8xf32, #msc.layout<"[{},{}]">>, tensor<16x8xf32, #msc.layout<"[{},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%2) {in_layout = ["[{},{}]"]} : (tensor<16x8xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
