// RUN: msc opt --set device_num=4 --set 'mesh={"dp":2,"tp":2}' --set compute_type=bf16 --set parallel_mode=semi_auto_parallel --check-numerics --passes=precision,autodiff,optimizer,tidy,strategies,propagate,search,layouts,redistribute %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>, %v: tensor<4x6xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[2, 1], [1, 2]]} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32> loc("up")
    %1 = "msc.matmul"(%0, %v) {in_strategy = [[2, 2], [2, 1]]} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32> loc("down")
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32> loc("loss")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{dp},{}]">>, %y: tensor<8xi32, #msc.layout<"[{dp,tp}]">>, %w: tensor<6x4xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<4x6xf32, #msc.layout<"[{tp},{}]">>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<8x6xf32, #msc.layout<"[{dp},{}]">>) -> tensor<8x6xbf16, #msc.layout<"[{dp},{}]">> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x4xf32, #msc.layout<"[{},{tp}]">>) -> tensor<6x4xbf16, #msc.layout<"[{},{tp}]">> loc("w")
    %2 = "msc.matmul"(%0, %1) {by = "user"} : (tensor<8x6xbf16, #msc.layout<"[{dp},{}]">>, tensor<6x4xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<8x4xbf16, #msc.layout<"[{dp},{tp}]">> loc("up")
    %3 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<4x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{tp},{}]">> loc("v")
    %4 = "msc.matmul"(%2, %3) {by = "user"} : (tensor<8x4xbf16, #msc.layout<"[{dp},{tp}]">>, tensor<4x6xbf16, #msc.layout<"[{tp},{}]">>) -> tensor<8x6xbf16, #msc.layout<"[{dp},{}] partial={tp}">> loc("down")
    %5 = "msc.reduce_scatter"(%4) : (tensor<8x6xbf16, #msc.layout<"[{dp},{}] partial={tp}">>) -> tensor<8x6xbf16, #msc.layout<"[{dp,tp},{}]">>
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<8x6xbf16, #msc.layout<"[{dp,tp},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>
    %7 = "msc.softmax_cross_entropy"(%6, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<8xi32, #msc.layout<"[{dp,tp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %8 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %9 = "msc.softmax_cross_entropy_grad"(%6, %y, %8) {forward = "loss", letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<8xi32, #msc.layout<"[{dp,tp}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("loss.grad")
    %10 = "msc.cast"(%9) {dtype = "bf16", forward = "%6", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>) -> tensor<8x6xbf16, #msc.layout<"[{dp,tp},{}]">>
    %11 = "msc.all_gather"(%10) : (tensor<8x6xbf16, #msc.layout<"[{dp,tp},{}]">>) -> tensor<8x6xbf16, #msc.layout<"[{dp},{}]">> loc("down.grad")
    %12 = "msc.matmul"(%11, %3) {forward = "down", letters = "mnk", transpose_b = true} : (tensor<8x6xbf16, #msc.layout<"[{dp},{}]">>, tensor<4x6xbf16, #msc.layout<"[{tp},{}]">>) -> tensor<8x4xbf16, #msc.layout<"[{dp},{tp}]">> loc("down.grad")
    %13 = "msc.matmul"(%2, %11) {forward = "down", letters = "mkn", transpose_a = true} : (tensor<8x4xbf16, #msc.layout<"[{dp},{tp}]">>, tensor<8x6xbf16, #msc.layout<"[{dp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{tp},{}] partial={dp}">> loc("down.grad")
    %14 = "msc.cast"(%13) {dtype = "f32", forward = "v", letters = "AB"} : (tensor<4x6xbf16, #msc.layout<"[{tp},{}] partial={dp}">>) -> tensor<4x6xf32, #msc.layout<"[{tp},{}] partial={dp}">> loc("v.grad")
    %15 = "msc.matmul"(%0, %12) {forward = "up", letters = "mkn", transpose_a = true} : (tensor<8x6xbf16, #msc.layout<"[{dp},{}]">>, tensor<8x4xbf16, #msc.layout<"[{dp},{tp}]">>) -> tensor<6x4xbf16, #msc.layout<"[{},{tp}] partial={dp}">> loc("up.grad")
    %16 = "msc.cast"(%15) {dtype = "f32", forward = "w", letters = "AB"} : (tensor<6x4xbf16, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<6x4xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("w.grad")
    %17 = "msc.all_reduce"(%16) : (tensor<6x4xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<6x4xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %18 = "msc.sgd"(%w, %17) {lr = 1.0e-01 : f64} : (tensor<6x4xf32, #msc.layout<"[{},{tp}]">>, tensor<6x4xf32, #msc.layout<"[{},{tp}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %19 = "msc.all_reduce"(%14) : (tensor<4x6xf32, #msc.layout<"[{tp},{}] partial={dp}">>) -> tensor<4x6xf32, #msc.layout<"[{tp},{}]">> loc("v.update")
    %20 = "msc.sgd"(%v, %19) {lr = 1.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{tp},{}]">>, tensor<4x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{tp},{}]">> loc("v.update")
    %21 = "msc.all_reduce"(%7) : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%21, %18, %20) {in_layout = ["[]", "[{},{tp}]", "[{tp},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{tp},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
