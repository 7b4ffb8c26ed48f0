// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --set 'mesh={"dp":2,"tp":2}' --passes=budgets --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %y: tensor<8xi32, #msc.layout<"[{dp}]">>, %w: tensor<4x8xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<8x6xf32, #msc.layout<"[{tp},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user", deny_replicate = true, in_layout = ["[{dp},{}]", "[{},{tp}]"], max_bytes = 64 : i64} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">> loc("up")
    %1 = "msc.matmul"(%0, %v) {by = "user", in_layout = ["[{dp},{tp}]", "[{tp},{}]"], max_bytes = 192 : i64, priority = 3 : i64} : (tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{}] partial={tp}">> loc("down")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "user", in_layout = ["[{dp},{}]", "[{dp}]"]} : (tensor<8x6xf32, #msc.layout<"[{dp},{}] partial={tp}">>, tensor<8xi32, #msc.layout<"[{dp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp}">> loc("loss")
    %3 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "loss", in_layout = ["[{dp},{}]", "[{dp}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{dp},{}] partial={tp}">>, tensor<8xi32, #msc.layout<"[{dp}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{}]">> loc("loss.grad")
    %5 = "msc.matmul"(%4, %v) {forward = "down", in_layout = ["[{dp},{}]", "[{tp},{}]"], letters = "mnk", transpose_b = true} : (tensor<8x6xf32, #msc.layout<"[{dp},{}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">> loc("down.grad")
    %6 = "msc.matmul"(%0, %4) {forward = "down", in_layout = ["[{dp},{tp}]", "[{dp},{}]"], letters = "mkn", transpose_a = true} : (tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">>, tensor<8x6xf32, #msc.layout<"[{dp},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{tp},{}] partial={dp}">> loc("down.grad")
    %7 = "msc.matmul"(%x, %5) {forward = "up", in_layout = ["[{dp},{}]", "[{dp},{tp}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x8xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("up.grad")
    %8 = "msc.sgd"(%w, %7) {in_layout = ["[{},{tp}]", "[{},{tp}]"], lr = 1.0e-01 : f64} : (tensor<4x8xf32, #msc.layout<"[{},{tp}]">>, tensor<4x8xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<4x8xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %9 = "msc.sgd"(%v, %6) {in_layout = ["[{tp},{}]", "[{tp},{}]"], lr = 1.0e-01 : f64} : (tensor<8x6xf32, #msc.layout<"[{tp},{}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}] partial={dp}">>) -> tensor<8x6xf32, #msc.layout<"[{tp},{}]">> loc("v.update")
    "msc.return"(%2, %8, %9) {in_layout = ["[]", "[{},{tp}]", "[{tp},{}]"]} : (tensor<f32, #msc.layout<"[] partial={dp}">>, tensor<4x8xf32, #msc.layout<"[{},{tp}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.02", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "normal:0.02", msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %y: tensor<8xi32, #msc.layout<"[{dp}]">>, %w: tensor<4x8xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<8x6xf32, #msc.layout<"[{tp},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_layout = ["[{dp},{}]", "[{},{tp}]"]} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">> loc("up")
    %1 = "msc.matmul"(%0, %v) {by = "user", in_layout = ["[{dp},{tp}]", "[{tp},{}]"]} : (tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{}] partial={tp}">> loc("down")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "user", in_layout = ["[{dp},{}]", "[{dp}]"]} : (tensor<8x6xf32, #msc.layout<"[{dp},{}] partial={tp}">>, tensor<8xi32, #msc.layout<"[{dp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp}">> loc("loss")
    %3 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "loss", in_layout = ["[{dp},{}]", "[{dp}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{dp},{}] partial={tp}">>, tensor<8xi32, #msc.layout<"[{dp}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{}]">> loc("loss.grad")
    %5 = "msc.matmul"(%4, %v) {forward = "down", in_layout = ["[{dp},{}]", "[{tp},{}]"], letters = "mnk", transpose_b = true} : (tensor<8x6xf32, #msc.layout<"[{dp},{}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">> loc("down.grad")
    %6 = "msc.matmul"(%0, %4) {forward = "down", in_layout = ["[{dp},{tp}]", "[{dp},{}]"], letters = "mkn", transpose_a = true} : (tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">>, tensor<8x6xf32, #msc.layout<"[{dp},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{tp},{}] partial={dp}">> loc("down.grad")
    %7 = "msc.matmul"(%x, %5) {forward = "up", in_layout = ["[{dp},{}]", "[{dp},{tp}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<8x8xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x8xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("up.grad")
    %8 = "msc.sgd"(%w, %7) {in_layout = ["[{},{tp}]", "[{},{tp}]"], lr = 1.0e-01 : f64} : (tensor<4x8xf32, #msc.layout<"[{},{tp}]">>, tensor<4x8xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<4x8xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %9 = "msc.sgd"(%v, %6) {in_layout = ["[{tp},{}]", "[{tp},{}]"], lr = 1.0e-01 : f64} : (tensor<8x6xf32, #msc.layout<"[{tp},{}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}] partial={dp}">>) -> tensor<8x6xf32, #msc.layout<"[{tp},{}]">> loc("v.update")
    "msc.return"(%2, %8, %9) {in_layout = ["[]", "[{},{tp}]", "[{tp},{}]"]} : (tensor<f32, #msc.layout<"[] partial={dp}">>, tensor<4x8xf32, #msc.layout<"[{},{tp}]">>, tensor<8x6xf32, #msc.layout<"[{tp},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.02", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "normal:0.02", msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
