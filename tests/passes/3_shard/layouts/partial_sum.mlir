// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=layouts %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x64xf32>, %w: tensor<64x128xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}} : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
    %1 = "msc.relu"(%0) {by = "search", sharding = {A = "{d:(1)2}", B = "{}"}} : (tensor<32x128xf32>) -> tensor<32x128xf32>
    "msc.return"(%1) : (tensor<32x128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, %w: tensor<64x128xf32, #msc.layout<"[{d:(2)4},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_layout = ["[{d:(1)2},{d:(2)4}]", "[{d:(2)4},{}]"]} : (tensor<32x64xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, tensor<64x128xf32, #msc.layout<"[{d:(2)4},{}]">>) -> tensor<32x128xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>
    %1 = "msc.relu"(%0) {by = "search", in_layout = ["[{d:(1)2},{}]"]} : (tensor<32x128xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>) -> tensor<32x128xf32, #msc.layout<"[{d:(1)2},{}]">>
    "msc.return"(%1) {in_layout = ["[{d:(1)2},{}]"]} : (tensor<32x128xf32, #msc.layout<"[{d:(1)2},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
