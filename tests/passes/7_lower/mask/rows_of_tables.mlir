// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=mask %s
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">} {
  "msc.func"() ({
  ^bb0(%t: tensor<7x2xf32, #msc.layout<"[{x},{}]">>, %n: tensor<5x2xf32, #msc.layout<"[{x,y},{}]">>, %i: tensor<3xi32, #msc.layout<"[{y}]">>, %w: tensor<3xi32, #msc.layout<"[{}]">>, %a: tensor<5xi32, #msc.layout<"[{x}]">>, %b: tensor<5xi32, #msc.layout<"[{x}]">>):
    %0 = "msc.gather"(%t, %i) : (tensor<7x2xf32, #msc.layout<"[{x},{}]">>, tensor<3xi32, #msc.layout<"[{y}]">>) -> tensor<3x2xf32, #msc.layout<"[{y},{}] partial={x}">>
    %1 = "msc.gather"(%n, %w) : (tensor<5x2xf32, #msc.layout<"[{x,y},{}]">>, tensor<3xi32, #msc.layout<"[{}]">>) -> tensor<3x2xf32, #msc.layout<"[{},{}] partial={x,y}">>
    %2 = "msc.div"(%a, %b) : (tensor<5xi32, #msc.layout<"[{x}]">>, tensor<5xi32, #msc.layout<"[{x}]">>) -> tensor<5xi32, #msc.layout<"[{x}]">>
    "msc.return"(%0, %1, %2) : (tensor<3x2xf32, #msc.layout<"[{y},{}] partial={x}">>, tensor<3x2xf32, #msc.layout<"[{},{}] partial={x,y}">>, tensor<5xi32, #msc.layout<"[{x}]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">} {
  "msc.func"() ({
  ^bb0(%t: tensor<7x2xf32, #msc.layout<"[{x},{}]">>, %n: tensor<5x2xf32, #msc.layout<"[{x,y},{}]">>, %i: tensor<3xi32, #msc.layout<"[{y}]">>, %w: tensor<3xi32, #msc.layout<"[{}]">>, %a: tensor<5xi32, #msc.layout<"[{x}]">>, %b: tensor<5xi32, #msc.layout<"[{x}]">>):
    %0 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %1 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<3xi32>} : () -> tensor<3xi32, #msc.layout<"[{y}]">>
    %2 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %3 = "msc.compare"(%1, %2) {predicate = "lt"} : (tensor<3xi32, #msc.layout<"[{y}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<3xi1, #msc.layout<"[{y}]">>
    %4 = "msc.select"(%3, %i, %0) : (tensor<3xi1, #msc.layout<"[{y}]">>, tensor<3xi32, #msc.layout<"[{y}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<3xi32, #msc.layout<"[{y}]">>
    %5 = "msc.gather"(%t, %4) : (tensor<7x2xf32, #msc.layout<"[{x},{}]">>, tensor<3xi32, #msc.layout<"[{y}]">>) -> tensor<3x2xf32, #msc.layout<"[{y},{}] partial={x}">>
    %6 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<5x1xi32>} : () -> tensor<5x1xi32, #msc.layout<"[{x,y},{}]">>
    %8 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %9 = "msc.compare"(%7, %8) {predicate = "lt"} : (tensor<5x1xi32, #msc.layout<"[{x,y},{}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<5x1xi1, #msc.layout<"[{x,y},{}]">>
    %10 = "msc.select"(%9, %n, %6) : (tensor<5x1xi1, #msc.layout<"[{x,y},{}]">>, tensor<5x2xf32, #msc.layout<"[{x,y},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<5x2xf32, #msc.layout<"[{x,y},{}]">>
    %11 = "msc.gather"(%10, %w) : (tensor<5x2xf32, #msc.layout<"[{x,y},{}]">>, tensor<3xi32, #msc.layout<"[{}]">>) -> tensor<3x2xf32, #msc.layout<"[{},{}] partial={x,y}">>
    %12 = "msc.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %13 = "msc.iota"() {behind = true, dim = 0 : i64, type = tensor<5xi32>} : () -> tensor<5xi32, #msc.layout<"[{x}]">>
    %14 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %15 = "msc.compare"(%13, %14) {predicate = "lt"} : (tensor<5xi32, #msc.layout<"[{x}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<5xi1, #msc.layout<"[{x}]">>
    %16 = "msc.select"(%15, %b, %12) : (tensor<5xi1, #msc.layout<"[{x}]">>, tensor<5xi32, #msc.layout<"[{x}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<5xi32, #msc.layout<"[{x}]">>
    %17 = "msc.div"(%a, %16) : (tensor<5xi32, #msc.layout<"[{x}]">>, tensor<5xi32, #msc.layout<"[{x}]">>) -> tensor<5xi32, #msc.layout<"[{x}]">>
    "msc.return"(%5, %11, %17) : (tensor<3x2xf32, #msc.layout<"[{y},{}] partial={x}">>, tensor<3x2xf32, #msc.layout<"[{},{}] partial={x,y}">>, tensor<5xi32, #msc.layout<"[{x}]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
