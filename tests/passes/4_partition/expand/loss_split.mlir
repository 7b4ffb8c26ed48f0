// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=expand,redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{},{d}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>):
    %0 = "msc.softmax_cross_entropy"(%x, %y) {in_layout = ["[{},{d}]", "[{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%0) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{},{d}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>):
    %0 = "msc.reduce_max"(%x) {dims = [1], keep_dims = true} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x1xf32, #msc.layout<"[{},{}] partial_max={d}">>
    %1 = "msc.all_reduce"(%0) {reduction = "max"} : (tensor<4x1xf32, #msc.layout<"[{},{}] partial_max={d}">>) -> tensor<4x1xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.sub"(%x, %1) : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>, tensor<4x1xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{d}]">>
    %3 = "msc.exp"(%2) : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{d}]">>
    %4 = "msc.reduce_sum"(%3) {dims = [1], keep_dims = true} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x1xf32, #msc.layout<"[{},{}] partial={d}">>
    %5 = "msc.all_reduce"(%4) : (tensor<4x1xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x1xf32, #msc.layout<"[{},{}]">>
    %6 = "msc.log"(%5) : (tensor<4x1xf32, #msc.layout<"[{},{}]">>) -> tensor<4x1xf32, #msc.layout<"[{},{}]">>
    %7 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %8 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %9 = "msc.broadcast_to"(%8) {shape = [6]} : (tensor<i32, #msc.layout<"[]">>) -> tensor<6xi32, #msc.layout<"[{}]">>
    %10 = "msc.gather"(%9, %y) : (tensor<6xi32, #msc.layout<"[{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<4xi32, #msc.layout<"[{}]">>
    %11 = "msc.add"(%y, %10) : (tensor<4xi32, #msc.layout<"[{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<4xi32, #msc.layout<"[{}]">>
    %12 = "msc.iota"() {type = tensor<6xi32>} : () -> tensor<6xi32, #msc.layout<"[{d}]">>
    %13 = "msc.reshape"(%11) {shape = [4, 1]} : (tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<4x1xi32, #msc.layout<"[{},{}]">>
    %14 = "msc.compare"(%13, %12) {predicate = "eq"} : (tensor<4x1xi32, #msc.layout<"[{},{}]">>, tensor<6xi32, #msc.layout<"[{d}]">>) -> tensor<4x6xi1, #msc.layout<"[{},{d}]">>
    %15 = "msc.select"(%14, %2, %7) : (tensor<4x6xi1, #msc.layout<"[{},{d}]">>, tensor<4x6xf32, #msc.layout<"[{},{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x6xf32, #msc.layout<"[{},{d}]">>
    %16 = "msc.reduce_sum"(%15) {dims = [1], keep_dims = true} : (tensor<4x6xf32, #msc.layout<"[{},{d}]">>) -> tensor<4x1xf32, #msc.layout<"[{},{}] partial={d}">>
    %17 = "msc.all_reduce"(%16) : (tensor<4x1xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x1xf32, #msc.layout<"[{},{}]">>
    %18 = "msc.sub"(%6, %17) : (tensor<4x1xf32, #msc.layout<"[{},{}]">>, tensor<4x1xf32, #msc.layout<"[{},{}]">>) -> tensor<4x1xf32, #msc.layout<"[{},{}]">>
    %19 = "msc.reshape"(%18) {shape = [4]} : (tensor<4x1xf32, #msc.layout<"[{},{}]">>) -> tensor<4xf32, #msc.layout<"[{}]">>
    %20 = "msc.reduce_mean"(%19) {dims = [0]} : (tensor<4xf32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%20) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {partitioned = true,
      sym_name = "forward"} : () -> ()
}
