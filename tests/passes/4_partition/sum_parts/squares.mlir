// RUN: msc opt --passes=sum_parts --check-numerics %s
// The norm of gradients of which some are cut over a, one over b, and one lies whole on each rank: a collective per axis.
module attributes {msc.mesh = #msc.mesh<"a=2,b=2">} {
  "msc.func"() ({
  ^bb0(%u: tensor<4xf64, #msc.layout<"[{a}]">>, %v: tensor<6xf64, #msc.layout<"[{a}]">>, %w: tensor<4xf64, #msc.layout<"[{b}]">>, %x: tensor<f64, #msc.layout<"[]">>, %y: tensor<2xf64, #msc.layout<"[{a}]">>):
    %0 = "msc.reduce_sum"(%u) {dims = [0]} : (tensor<4xf64, #msc.layout<"[{a}]">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %1 = "msc.all_reduce"(%0) : (tensor<f64, #msc.layout<"[] partial={a}">>) -> tensor<f64, #msc.layout<"[]">>
    %2 = "msc.reduce_sum"(%v) {dims = [0]} : (tensor<6xf64, #msc.layout<"[{a}]">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %3 = "msc.all_reduce"(%2) : (tensor<f64, #msc.layout<"[] partial={a}">>) -> tensor<f64, #msc.layout<"[]">>
    %4 = "msc.add"(%1, %3) : (tensor<f64, #msc.layout<"[]">>, tensor<f64, #msc.layout<"[]">>) -> tensor<f64, #msc.layout<"[]">>
    %5 = "msc.reduce_sum"(%w) {dims = [0]} : (tensor<4xf64, #msc.layout<"[{b}]">>) -> tensor<f64, #msc.layout<"[] partial={b}">>
    %6 = "msc.all_reduce"(%5) : (tensor<f64, #msc.layout<"[] partial={b}">>) -> tensor<f64, #msc.layout<"[]">>
    %7 = "msc.add"(%4, %6) : (tensor<f64, #msc.layout<"[]">>, tensor<f64, #msc.layout<"[]">>) -> tensor<f64, #msc.layout<"[]">>
    %8 = "msc.add"(%7, %x) : (tensor<f64, #msc.layout<"[]">>, tensor<f64, #msc.layout<"[]">>) -> tensor<f64, #msc.layout<"[]">>
    %9 = "msc.reduce_sum"(%y) {dims = [0]} : (tensor<2xf64, #msc.layout<"[{a}]">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %10 = "msc.all_reduce"(%9) : (tensor<f64, #msc.layout<"[] partial={a}">>) -> tensor<f64, #msc.layout<"[]">>
    %11 = "msc.add"(%8, %10) : (tensor<f64, #msc.layout<"[]">>, tensor<f64, #msc.layout<"[]">>) -> tensor<f64, #msc.layout<"[]">>
    "msc.return"(%11) : (tensor<f64, #msc.layout<"[]">>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"a=2,b=2">} {
  "msc.func"() ({
  ^bb0(%u: tensor<4xf64, #msc.layout<"[{a}]">>, %v: tensor<6xf64, #msc.layout<"[{a}]">>, %w: tensor<4xf64, #msc.layout<"[{b}]">>, %x: tensor<f64, #msc.layout<"[]">>, %y: tensor<2xf64, #msc.layout<"[{a}]">>):
    %0 = "msc.reduce_sum"(%u) {dims = [0]} : (tensor<4xf64, #msc.layout<"[{a}]">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %1 = "msc.reduce_sum"(%v) {dims = [0]} : (tensor<6xf64, #msc.layout<"[{a}]">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %2 = "msc.add"(%0, %1) : (tensor<f64, #msc.layout<"[] partial={a}">>, tensor<f64, #msc.layout<"[] partial={a}">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %3 = "msc.reduce_sum"(%w) {dims = [0]} : (tensor<4xf64, #msc.layout<"[{b}]">>) -> tensor<f64, #msc.layout<"[] partial={b}">>
    %4 = "msc.all_reduce"(%3) : (tensor<f64, #msc.layout<"[] partial={b}">>) -> tensor<f64, #msc.layout<"[]">>
    %5 = "msc.add"(%4, %x) : (tensor<f64, #msc.layout<"[]">>, tensor<f64, #msc.layout<"[]">>) -> tensor<f64, #msc.layout<"[]">>
    %6 = "msc.reduce_sum"(%y) {dims = [0]} : (tensor<2xf64, #msc.layout<"[{a}]">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %7 = "msc.add"(%2, %6) : (tensor<f64, #msc.layout<"[] partial={a}">>, tensor<f64, #msc.layout<"[] partial={a}">>) -> tensor<f64, #msc.layout<"[] partial={a}">>
    %8 = "msc.all_reduce"(%7) : (tensor<f64, #msc.layout<"[] partial={a}">>) -> tensor<f64, #msc.layout<"[]">>
    %9 = "msc.add"(%5, %8) : (tensor<f64, #msc.layout<"[]">>, tensor<f64, #msc.layout<"[]">>) -> tensor<f64, #msc.layout<"[]">>
    "msc.return"(%9) : (tensor<f64, #msc.layout<"[]">>) -> ()
  }) {sym_name = "f"} : () -> ()
}
