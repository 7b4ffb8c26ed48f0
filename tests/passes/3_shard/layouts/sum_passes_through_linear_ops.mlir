// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=layouts %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x64xf32>, %w: tensor<64x128xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", sharding = {k = "{d}", m = "{}", n = "{}"}} : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
    %1 = "msc.neg"(%0) {by = "search", sharding = {A = "{}", B = "{}"}} : (tensor<32x128xf32>) -> tensor<32x128xf32>
    %2 = "msc.reduce_sum"(%1) {by = "search", dims = [0], sharding = {A = "{}", B = "{}"}} : (tensor<32x128xf32>) -> tensor<128xf32>
    "msc.return"(%2) : (tensor<128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x64xf32, #msc.layout<"[{},{d}]">>, %w: tensor<64x128xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_layout = ["[{},{d}]", "[{d},{}]"]} : (tensor<32x64xf32, #msc.layout<"[{},{d}]">>, tensor<64x128xf32, #msc.layout<"[{d},{}]">>) -> tensor<32x128xf32, #msc.layout<"[{},{}] partial={d}">>
    %1 = "msc.neg"(%0) {by = "search", in_layout = ["[{},{}] partial={d}"]} : (tensor<32x128xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<32x128xf32, #msc.layout<"[{},{}] partial={d}">>
    %2 = "msc.reduce_sum"(%1) {by = "search", dims = [0], in_layout = ["[{},{}] partial={d}"]} : (tensor<32x128xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<128xf32, #msc.layout<"[{}] partial={d}">>
    "msc.return"(%2) {in_layout = ["[{}]"]} : (tensor<128xf32, #msc.layout<"[{}] partial={d}">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
