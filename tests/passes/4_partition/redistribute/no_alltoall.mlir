// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --set enable_alltoall=false --passes=redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.exp"(%x) {in_layout = ["[{},{d}]"]} : (tensor<16x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{d}]">>
    "msc.return"(%0) {in_layout = ["[{},{d}]"]} : (tensor<16x8xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.all_gather"(%x) : (tensor<16x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{d:(1)4},{}]">>
    %1 = "msc.all_gather"(%0) : (tensor<16x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{d:(1)2},{}]">>
    %2 = "msc.all_gather"(%1) : (tensor<16x8xf32, #msc.layout<"[{d:(1)2},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{}]">>
    %3 = "msc.shard"(%2) : (tensor<16x8xf32, #msc.layout<"[{},{}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{d}]">>
    %4 = "msc.exp"(%3) : (tensor<16x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<16x8xf32, #msc.layout<"[{},{d}]">>
    "msc.return"(%4) {in_layout = ["[{},{d}]"]} : (tensor<16x8xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
