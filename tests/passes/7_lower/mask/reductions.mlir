// RUN: msc opt --set device_num=3 --set parallel_mode=semi_auto_parallel --passes=mask %s
module attributes {msc.mesh = #msc.mesh<"d=3">} {
  "msc.func"() ({
  ^bb0(%x: tensor<7x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<7xi32, #msc.layout<"[{d}]">>, %e: tensor<6x4xf32, #msc.layout<"[{d},{}]">>, %s: tensor<7x4xf32, #msc.layout<"[{d}/(1,6,0),{}]">>):
    %0 = "msc.matmul"(%x, %x) {transpose_a = true} : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>, tensor<7x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">>
    %1 = "msc.reduce_max"(%x) {dims = [0]} : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial_max={d}">>
    %2 = "msc.softmax_cross_entropy"(%x, %y) : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>, tensor<7xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %3 = "msc.reduce_sum"(%e) {dims = [0]} : (tensor<6x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial={d}">>
    %4 = "msc.reduce_sum"(%x) {dims = [1]} : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<7xf32, #msc.layout<"[{d}]">>
    %5 = "msc.reduce_mean"(%s) {dims = [0]} : (tensor<7x4xf32, #msc.layout<"[{d}/(1,6,0),{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial={d}">>
    "msc.return"(%0, %1, %2, %3, %4, %5) : (tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<4xf32, #msc.layout<"[{}] partial_max={d}">>, tensor<f32, #msc.layout<"[] partial={d}">>, tensor<4xf32, #msc.layout<"[{}] partial={d}">>, tensor<7xf32, #msc.layout<"[{d}]">>, tensor<4xf32, #msc.layout<"[{}] partial={d}">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=3">} {
  "msc.func"() ({
  ^bb0(%x: tensor<7x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<7xi32, #msc.layout<"[{d}]">>, %e: tensor<6x4xf32, #msc.layout<"[{d},{}]">>, %s: tensor<7x4xf32, #msc.layout<"[{d}/(1,6,0),{}]">>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %1 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<7x1xi32>} : () -> tensor<7x1xi32, #msc.layout<"[{d},{}]">>
    %2 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %3 = "msc.compare"(%1, %2) {predicate = "lt"} : (tensor<7x1xi32, #msc.layout<"[{d},{}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<7x1xi1, #msc.layout<"[{d},{}]">>
    %4 = "msc.select"(%3, %x, %0) : (tensor<7x1xi1, #msc.layout<"[{d},{}]">>, tensor<7x4xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<7x4xf32, #msc.layout<"[{d},{}]">>
    %5 = "msc.matmul"(%4, %4) {transpose_a = true} : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>, tensor<7x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">>
    %6 = "msc.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<7x1xi32>} : () -> tensor<7x1xi32, #msc.layout<"[{d},{}]">>
    %8 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %9 = "msc.compare"(%7, %8) {predicate = "lt"} : (tensor<7x1xi32, #msc.layout<"[{d},{}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<7x1xi1, #msc.layout<"[{d},{}]">>
    %10 = "msc.select"(%9, %x, %6) : (tensor<7x1xi1, #msc.layout<"[{d},{}]">>, tensor<7x4xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<7x4xf32, #msc.layout<"[{d},{}]">>
    %11 = "msc.reduce_max"(%10) {dims = [0]} : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial_max={d}">>
    %12 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %13 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<7xi32>} : () -> tensor<7xi32, #msc.layout<"[{d}]">>
    %14 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %15 = "msc.compare"(%13, %14) {predicate = "lt"} : (tensor<7xi32, #msc.layout<"[{d}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<7xi1, #msc.layout<"[{d}]">>
    %16 = "msc.select"(%15, %y, %12) : (tensor<7xi1, #msc.layout<"[{d}]">>, tensor<7xi32, #msc.layout<"[{d}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<7xi32, #msc.layout<"[{d}]">>
    %17 = "msc.softmax_cross_entropy"(%x, %16) {reduction = "none"} : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>, tensor<7xi32, #msc.layout<"[{d}]">>) -> tensor<7xf32, #msc.layout<"[{d}]">>
    %18 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %19 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<7xi32>} : () -> tensor<7xi32, #msc.layout<"[{d}]">>
    %20 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %21 = "msc.compare"(%19, %20) {predicate = "lt"} : (tensor<7xi32, #msc.layout<"[{d}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<7xi1, #msc.layout<"[{d}]">>
    %22 = "msc.select"(%21, %17, %18) : (tensor<7xi1, #msc.layout<"[{d}]">>, tensor<7xf32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<7xf32, #msc.layout<"[{d}]">>
    %23 = "msc.reduce_mean"(%22) {dims = [0]} : (tensor<7xf32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %24 = "msc.reduce_sum"(%e) {dims = [0]} : (tensor<6x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial={d}">>
    %25 = "msc.reduce_sum"(%x) {dims = [1]} : (tensor<7x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<7xf32, #msc.layout<"[{d}]">>
    %26 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %27 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<7x1xi32>} : () -> tensor<7x1xi32, #msc.layout<"[{d}/(1,6,0),{}]">>
    %28 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %29 = "msc.compare"(%27, %28) {predicate = "lt"} : (tensor<7x1xi32, #msc.layout<"[{d}/(1,6,0),{}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<7x1xi1, #msc.layout<"[{d}/(1,6,0),{}]">>
    %30 = "msc.select"(%29, %s, %26) : (tensor<7x1xi1, #msc.layout<"[{d}/(1,6,0),{}]">>, tensor<7x4xf32, #msc.layout<"[{d}/(1,6,0),{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<7x4xf32, #msc.layout<"[{d}/(1,6,0),{}]">>
    %31 = "msc.reduce_mean"(%30) {dims = [0]} : (tensor<7x4xf32, #msc.layout<"[{d}/(1,6,0),{}]">>) -> tensor<4xf32, #msc.layout<"[{}] partial={d}">>
    "msc.return"(%5, %11, %23, %24, %25, %31) : (tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<4xf32, #msc.layout<"[{}] partial_max={d}">>, tensor<f32, #msc.layout<"[] partial={d}">>, tensor<4xf32, #msc.layout<"[{}] partial={d}">>, tensor<7xf32, #msc.layout<"[{d}]">>, tensor<4xf32, #msc.layout<"[{}] partial={d}">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
