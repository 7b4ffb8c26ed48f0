// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=expand,redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x8xf32, #msc.layout<"[{},{d}]">>):
    %0 = "msc.cumsum"(%x) {axis = 1 : i64, in_layout = ["[{},{d}]"]} : (tensor<2x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<2x8xf32, #msc.layout<"[{},{d}]">>
    "msc.return"(%0) {in_layout = ["[{},{d}]"]} : (tensor<2x8xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x8xf32, #msc.layout<"[{},{d}]">>):
    %0 = "msc.reshape"(%x) {shape = [2, 2, 4]} : (tensor<2x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>
    %1 = "msc.cumsum"(%0) {axis = 2 : i64, exclusive = false, reverse = false} : (tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>) -> tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>
    %2 = "msc.reduce_sum"(%0) {dims = [2], keep_dims = true} : (tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>) -> tensor<2x2x1xf32, #msc.layout<"[{},{d},{}]">>
    %3 = "msc.iota"() {type = tensor<2xi32>} : () -> tensor<2xi32, #msc.layout<"[{}]">>
    %4 = "msc.reshape"(%3) {shape = [2, 1]} : (tensor<2xi32, #msc.layout<"[{}]">>) -> tensor<2x1xi32, #msc.layout<"[{},{}]">>
    %5 = "msc.iota"() {type = tensor<2xi32>} : () -> tensor<2xi32, #msc.layout<"[{d}]">>
    %6 = "msc.compare"(%5, %4) {predicate = "lt"} : (tensor<2xi32, #msc.layout<"[{d}]">>, tensor<2x1xi32, #msc.layout<"[{},{}]">>) -> tensor<2x2xi1, #msc.layout<"[{},{d}]">>
    %7 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %8 = "msc.reshape"(%2) {shape = [2, 1, 2]} : (tensor<2x2x1xf32, #msc.layout<"[{},{d},{}]">>) -> tensor<2x1x2xf32, #msc.layout<"[{},{},{d}]">>
    %9 = "msc.select"(%6, %8, %7) : (tensor<2x2xi1, #msc.layout<"[{},{d}]">>, tensor<2x1x2xf32, #msc.layout<"[{},{},{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<2x2x2xf32, #msc.layout<"[{},{},{d}]">>
    %10 = "msc.reduce_sum"(%9) {dims = [2], keep_dims = true} : (tensor<2x2x2xf32, #msc.layout<"[{},{},{d}]">>) -> tensor<2x2x1xf32, #msc.layout<"[{},{},{}] partial={d}">>
    %11 = "msc.reduce_scatter"(%10) : (tensor<2x2x1xf32, #msc.layout<"[{},{},{}] partial={d}">>) -> tensor<2x2x1xf32, #msc.layout<"[{},{d},{}]">>
    %12 = "msc.add"(%1, %11) : (tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>, tensor<2x2x1xf32, #msc.layout<"[{},{d},{}]">>) -> tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>
    %13 = "msc.reshape"(%12) {shape = [2, 8]} : (tensor<2x2x4xf32, #msc.layout<"[{},{d},{}]">>) -> tensor<2x8xf32, #msc.layout<"[{},{d}]">>
    "msc.return"(%13) {in_layout = ["[{},{d}]"]} : (tensor<2x8xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {partitioned = true,
      sym_name = "f"} : () -> ()
}
