// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x32xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, %w: tensor<32x64xf32, #msc.layout<"[{d:(2)4},{}]">>):
    %0 = "msc.matmul"(%x, %w) {in_layout = ["[{d:(1)2},{d:(2)4}]", "[{d:(2)4},{}]"]} : (tensor<16x32xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, tensor<32x64xf32, #msc.layout<"[{d:(2)4},{}]">>) -> tensor<16x64xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>
    %1 = "msc.relu"(%0) {in_layout = ["[{d:(1)2},{d:(2)4}]"]} : (tensor<16x64xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>) -> tensor<16x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>
    %2 = "msc.exp"(%1) {in_layout = ["[{},{d:(2)4,d:(1)2}]"]} : (tensor<16x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>) -> tensor<16x64xf32, #msc.layout<"[{},{d:(2)4,d:(1)2}]">>
    "msc.return"(%2) {in_layout = ["[{},{}]"]} : (tensor<16x64xf32, #msc.layout<"[{},{d:(2)4,d:(1)2}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x32xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, %w: tensor<32x64xf32, #msc.layout<"[{d:(2)4},{}]">>):
    %0 = "msc.matmul"(%x, %w) : (tensor<16x32xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, tensor<32x64xf32, #msc.layout<"[{d:(2)4},{}]">>) -> tensor<16x64xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>
    %1 = "msc.reduce_scatter"(%0) : (tensor<16x64xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>) -> tensor<16x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>
    %2 = "msc.relu"(%1) : (tensor<16x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>) -> tensor<16x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>
    %3 = "msc.all_to_all"(%2) : (tensor<16x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>) -> tensor<16x64xf32, #msc.layout<"[{},{d:(2)4,d:(1)2}]">>
    %4 = "msc.exp"(%3) : (tensor<16x64xf32, #msc.layout<"[{},{d:(2)4,d:(1)2}]">>) -> tensor<16x64xf32, #msc.layout<"[{},{d:(2)4,d:(1)2}]">>
    %5 = "msc.all_gather"(%4) : (tensor<16x64xf32, #msc.layout<"[{},{d:(2)4,d:(1)2}]">>) -> tensor<16x64xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%5) {in_layout = ["[{},{}]"]} : (tensor<16x64xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
