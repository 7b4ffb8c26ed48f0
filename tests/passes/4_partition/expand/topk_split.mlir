// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=expand,redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x8xf32, #msc.layout<"[{},{d}]">>):
    %0:2 = "msc.topk"(%x) {in_layout = ["[{},{d}]"], k = 3 : i64} : (tensor<2x8xf32, #msc.layout<"[{},{d}]">>) -> (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2x3xi32, #msc.layout<"[{},{}]">>)
    "msc.return"(%0#0, %0#1) {in_layout = ["[{},{}]", "[{},{}]"]} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2x3xi32, #msc.layout<"[{},{}]">>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x8xf32, #msc.layout<"[{},{d}]">>):
    %0 = "msc.reshape"(%x) {shape = [2, 2, 4]} : (tensor<2x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>
    %1:2 = "msc.topk"(%0) {axis = 2 : i64, dtype = "i32", k = 3 : i64, largest = true} : (tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>) -> (tensor<2x2x3xf32, #msc.layout<"[{},{d},{}]">>, tensor<2x2x3xi32, #msc.layout<"[{},{d},{}]">>)
    %2 = "msc.iota"() {type = tensor<2xi32>} : () -> tensor<2xi32, #msc.layout<"[{d}]">>
    %3 = "msc.reshape"(%2) {shape = [2, 1]} : (tensor<2xi32, #msc.layout<"[{d}]">>) -> tensor<2x1xi32, #msc.layout<"[{d},{}]">>
    %4 = "msc.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %5 = "msc.mul"(%3, %4) : (tensor<2x1xi32, #msc.layout<"[{d},{}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<2x1xi32, #msc.layout<"[{d},{}]">>
    %6 = "msc.add"(%1#1, %5) : (tensor<2x2x3xi32, #msc.layout<"[{},{d},{}]">>, tensor<2x1xi32, #msc.layout<"[{d},{}]">>) -> tensor<2x2x3xi32, #msc.layout<"[{},{d},{}]">>
    %7 = "msc.reshape"(%1#0) {shape = [2, 6]} : (tensor<2x2x3xf32, #msc.layout<"[{},{d},{}]">>) -> tensor<2x6xf32, #msc.layout<"[{},{d}]">>
    %8 = "msc.reshape"(%6) {shape = [2, 6]} : (tensor<2x2x3xi32, #msc.layout<"[{},{d},{}]">>) -> tensor<2x6xi32, #msc.layout<"[{},{d}]">>
    %9 = "msc.all_gather"(%7) : (tensor<2x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<2x6xf32, #msc.layout<"[{},{}]">>
    %10:2 = "msc.sort"(%9) {axis = 1 : i64, descending = true, dtype = "i32"} : (tensor<2x6xf32, #msc.layout<"[{},{}]">>) -> (tensor<2x6xf32, #msc.layout<"[{},{}]">>, tensor<2x6xi32, #msc.layout<"[{},{}]">>)
    %11 = "msc.slice"(%10#1) {limit = [2, 3], start = [0, 0]} : (tensor<2x6xi32, #msc.layout<"[{},{}]">>) -> tensor<2x3xi32, #msc.layout<"[{},{}]">>
    %12 = "msc.slice"(%10#0) {limit = [2, 3], start = [0, 0]} : (tensor<2x6xf32, #msc.layout<"[{},{}]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %13 = "msc.take_along"(%8, %11) {axis = 1 : i64} : (tensor<2x6xi32, #msc.layout<"[{},{d}]">>, tensor<2x3xi32, #msc.layout<"[{},{}]">>) -> tensor<2x3xi32, #msc.layout<"[{},{}] partial={d}">>
    %14 = "msc.all_reduce"(%13) : (tensor<2x3xi32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<2x3xi32, #msc.layout<"[{},{}]">>
    "msc.return"(%12, %14) {in_layout = ["[{},{}]", "[{},{}]"]} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2x3xi32, #msc.layout<"[{},{}]">>) -> ()
  }) {partitioned = true,
      sym_name = "f"} : () -> ()
}
