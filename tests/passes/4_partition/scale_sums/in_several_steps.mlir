// RUN: msc opt --set device_num=4 --set 'mesh={"a":2,"b":2}' --set parallel_mode=semi_auto_parallel --passes=scale_sums --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"a=2,b=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xf32, #msc.layout<"[{a,b},{}]">>):
    %0 = "msc.reduce_mean"(%x) {dims = [0]} : (tensor<6x4xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial={a,b}">>
    %1 = "msc.reduce_scatter"(%0) : (tensor<4xf32, #msc.layout<"[{}] partial={a,b}">>) -> tensor<4xf32, #msc.layout<"[{b}] partial={a}">>
    %2 = "msc.all_reduce"(%1) : (tensor<4xf32, #msc.layout<"[{b}] partial={a}">>) -> tensor<4xf32, #msc.layout<"[{b}]">>
    %3 = "msc.exp"(%2) : (tensor<4xf32, #msc.layout<"[{b}]">>) -> tensor<4xf32, #msc.layout<"[{b}]">>
    "msc.return"(%3, %2) {in_layout = ["[{b}]", "[{b}]"]} : (tensor<4xf32, #msc.layout<"[{b}]">>, tensor<4xf32, #msc.layout<"[{b}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      partitioned = true,
      results = ["y", "m"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"a=2,b=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xf32, #msc.layout<"[{a,b},{}]">>):
    %0 = "msc.reduce_sum"(%x) {dims = [0]} : (tensor<6x4xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial={a,b}">>
    %1 = "msc.constant"() {value = dense<6.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %2 = "msc.reduce_scatter"(%0) : (tensor<4xf32, #msc.layout<"[{}] partial={a,b}">>) -> tensor<4xf32, #msc.layout<"[{b}] partial={a}">>
    %3 = "msc.all_reduce"(%2) : (tensor<4xf32, #msc.layout<"[{b}] partial={a}">>) -> tensor<4xf32, #msc.layout<"[{b}]">>
    %4 = "msc.div"(%3, %1) : (tensor<4xf32, #msc.layout<"[{b}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4xf32, #msc.layout<"[{b}]">>
    %5 = "msc.exp"(%4) : (tensor<4xf32, #msc.layout<"[{b}]">>) -> tensor<4xf32, #msc.layout<"[{b}]">>
    "msc.return"(%5, %4) {in_layout = ["[{b}]", "[{b}]"]} : (tensor<4xf32, #msc.layout<"[{b}]">>, tensor<4xf32, #msc.layout<"[{b}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      partitioned = true,
      results = ["y", "m"],
      sym_name = "forward"} : () -> ()
}
