// RUN: msc opt --passes=expand --check-numerics %s
// The loss as one op is partial over the batch; its primitives leave it partial over the classes, too, and the sum with it.  A sum that
// is cut among ranks stays as it is.
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>, %y: tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>):
    %0 = "msc.softmax_cross_entropy"(%x, %y) {in_layout = ["[{dp},{tp}]", "[{dp},{tp}]"], reduction = "mean"} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>, tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp}">> loc("loss")
    %1 = "msc.accumulate"(%0) {count = 2 : i64, mean = true} : (tensor<f32, #msc.layout<"[] partial={dp}">>) -> tensor<f32, #msc.layout<"[] partial={dp}">> loc("loss")
    %2 = "msc.reduce_sum"(%x) {dims = [0]} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<12xf32, #msc.layout<"[{tp}] partial={dp}">> loc("gradient")
    %3 = "msc.accumulate"(%2) {count = 2 : i64, in_layout = ["[{tp,dp}]"]} : (tensor<12xf32, #msc.layout<"[{tp}] partial={dp}">>) -> tensor<12xf32, #msc.layout<"[{tp,dp}]">> loc("gradient")
    "msc.return"(%1, %3) {in_layout = ["[]", "[{tp,dp}]"]} : (tensor<f32, #msc.layout<"[] partial={dp}">>, tensor<12xf32, #msc.layout<"[{tp,dp}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"}],
      sym_name = "train"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>, %y: tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>):
    %0 = "msc.reduce_max"(%x) {dims = [1], in_layout = ["[{dp},{tp}]"], keep_dims = true} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x1xf32, #msc.layout<"[{dp},{}] partial_max={tp}">> loc("loss")
    %1 = "msc.sub"(%x, %0) {in_layout = ["[{dp},{tp}]", "[{dp},{}]"]} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>, tensor<4x1xf32, #msc.layout<"[{dp},{}] partial_max={tp}">>) -> tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">> loc("loss")
    %2 = "msc.exp"(%1) {in_layout = ["[{dp},{tp}]"]} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">> loc("loss")
    %3 = "msc.reduce_sum"(%2) {dims = [1], in_layout = ["[{dp},{tp}]"], keep_dims = true} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">> loc("loss")
    %4 = "msc.log"(%3) {in_layout = ["[{dp},{}]"]} : (tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">>) -> tensor<4x1xf32, #msc.layout<"[{dp},{}]">> loc("loss")
    %5 = "msc.mul"(%y, %1) {in_layout = ["[{dp},{tp}]", "[{dp},{tp}]"]} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>, tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">> loc("loss")
    %6 = "msc.reduce_sum"(%5) {dims = [1], in_layout = ["[{dp},{tp}]"], keep_dims = true} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">> loc("loss")
    %7 = "msc.reduce_sum"(%y) {dims = [1], in_layout = ["[{dp},{tp}]"], keep_dims = true} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">> loc("loss")
    %8 = "msc.mul"(%4, %7) {in_layout = ["[{dp},{}]", "[{dp},{}] partial={tp}"]} : (tensor<4x1xf32, #msc.layout<"[{dp},{}]">>, tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">>) -> tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">> loc("loss")
    %9 = "msc.sub"(%8, %6) {in_layout = ["[{dp},{}] partial={tp}", "[{dp},{}] partial={tp}"]} : (tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">>, tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">>) -> tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">> loc("loss")
    %10 = "msc.reshape"(%9) {in_layout = ["[{dp},{}] partial={tp}"], shape = [4]} : (tensor<4x1xf32, #msc.layout<"[{dp},{}] partial={tp}">>) -> tensor<4xf32, #msc.layout<"[{dp}] partial={tp}">> loc("loss")
    %11 = "msc.reduce_mean"(%10) {dims = [0], in_layout = ["[{dp}] partial={tp}"]} : (tensor<4xf32, #msc.layout<"[{dp}] partial={tp}">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %12 = "msc.accumulate"(%11) {count = 2 : i64, mean = true} : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %13 = "msc.reduce_sum"(%x) {dims = [0]} : (tensor<4x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<12xf32, #msc.layout<"[{tp}] partial={dp}">> loc("gradient")
    %14 = "msc.accumulate"(%13) {count = 2 : i64, in_layout = ["[{tp,dp}]"]} : (tensor<12xf32, #msc.layout<"[{tp}] partial={dp}">>) -> tensor<12xf32, #msc.layout<"[{tp,dp}]">> loc("gradient")
    "msc.return"(%12, %14) {in_layout = ["[]", "[{tp,dp}]"]} : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>, tensor<12xf32, #msc.layout<"[{tp,dp}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"}],
      sym_name = "train"} : () -> ()
}
