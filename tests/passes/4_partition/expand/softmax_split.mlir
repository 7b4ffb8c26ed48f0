// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=expand --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{},{d}]">>, %z: tensor<4x6xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.softmax"(%x) {in_layout = ["[{},{d}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{d}]">>
    %1 = "msc.softmax"(%z) {in_layout = ["[{d},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">>
    "msc.return"(%0, %1) {in_layout = ["[{},{}]", "[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{},{d}]">>, %z: tensor<4x6xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.reduce_max"(%x) {dims = [1], in_layout = ["[{},{d}]"], keep_dims = true} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x1xf32, #msc.layout<"[{},{}] partial_max={d}">>
    %1 = "msc.sub"(%x, %0) {in_layout = ["[{},{d}]", "[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>, tensor<4x1xf32, #msc.layout<"[{},{}] partial_max={d}">>) -> tensor<4x6xf32, #msc.layout<"[{},{d}]">>
    %2 = "msc.exp"(%1) {in_layout = ["[{},{d}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{d}]">>
    %3 = "msc.reduce_sum"(%2) {dims = [1], in_layout = ["[{},{d}]"], keep_dims = true} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x1xf32, #msc.layout<"[{},{}] partial={d}">>
    %4 = "msc.div"(%2, %3) {in_layout = ["[{},{d}]", "[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>, tensor<4x1xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x6xf32, #msc.layout<"[{},{d}]">>
    %5 = "msc.softmax"(%z) {in_layout = ["[{d},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">>
    "msc.return"(%4, %5) {in_layout = ["[{},{}]", "[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
