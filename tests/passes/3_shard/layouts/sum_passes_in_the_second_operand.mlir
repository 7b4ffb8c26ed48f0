// RUN: msc opt --set device_num=4 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --check-numerics --passes=layouts %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8x8xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[1, 4], [4, 1]], sharding = {k = "{d}", m = "{}", n = "{}"}} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = "msc.mul"(%b, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%1) : (tensor<8x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32, #msc.layout<"[{},{d}]">>, %w: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %b: tensor<8x8xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_layout = ["[{},{d}]", "[{d},{}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}] partial={d}">>
    %1 = "msc.mul"(%b, %0) {in_layout = ["[{},{}]", "[{},{}] partial={d}"]} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<8x8xf32, #msc.layout<"[{},{}] partial={d}">>
    "msc.return"(%1) {in_layout = ["[{},{}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{}] partial={d}">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
