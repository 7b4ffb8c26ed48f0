// RUN: msc opt --set device_num=4 --set 'mesh={"dp":2,"tp":2}' --set compute_type=bf16 --set parallel_mode=semi_auto_parallel --set gradient_fp32_sync=false --set micro_size=2 --check-numerics --passes=micro,precision,autodiff,optimizer,tidy,strategies,propagate,search,layouts,zero,aggregate,accumulate,redistribute %s
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
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{dp},{}]">>, %y: tensor<4xi32, #msc.layout<"[{dp,tp}]">>, %w: tensor<6x4xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<4x6xf32, #msc.layout<"[{tp},{}]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<4x6xf32, #msc.layout<"[{dp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{dp},{}]">> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x4xf32, #msc.layout<"[{},{tp}]">>) -> tensor<6x4xbf16, #msc.layout<"[{},{tp}]">> loc("w")
    %2 = "msc.matmul"(%0, %1) {by = "user"} : (tensor<4x6xbf16, #msc.layout<"[{dp},{}]">>, tensor<6x4xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<4x4xbf16, #msc.layout<"[{dp},{tp}]">> loc("up")
    %3 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<4x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{tp},{}]">> loc("v")
    %4 = "msc.matmul"(%2, %3) {by = "user"} : (tensor<4x4xbf16, #msc.layout<"[{dp},{tp}]">>, tensor<4x6xbf16, #msc.layout<"[{tp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{dp},{}] partial={tp}">> loc("down")
    %5 = "msc.reduce_scatter"(%4) : (tensor<4x6xbf16, #msc.layout<"[{dp},{}] partial={tp}">>) -> tensor<4x6xbf16, #msc.layout<"[{dp,tp},{}]">>
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<4x6xbf16, #msc.layout<"[{dp,tp},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{dp,tp},{}]">>
    %7 = "msc.softmax_cross_entropy"(%6, %y) {by = "default"} : (tensor<4x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<4xi32, #msc.layout<"[{dp,tp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %8 = "msc.accumulate"(%7) {count = 2 : i64, mean = true} : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %9 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %10 = "msc.softmax_cross_entropy_grad"(%6, %y, %9) {forward = "loss", letters = "Ac"} : (tensor<4x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<4xi32, #msc.layout<"[{dp,tp}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("loss.grad")
    %11 = "msc.cast"(%10) {dtype = "bf16", forward = "%6", letters = "AB"} : (tensor<4x6xf32, #msc.layout<"[{dp,tp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{dp,tp},{}]">>
    %12 = "msc.all_gather"(%11) : (tensor<4x6xbf16, #msc.layout<"[{dp,tp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{dp},{}]">> loc("down.grad")
    %13 = "msc.matmul"(%12, %3) {forward = "down", letters = "mnk", transpose_b = true} : (tensor<4x6xbf16, #msc.layout<"[{dp},{}]">>, tensor<4x6xbf16, #msc.layout<"[{tp},{}]">>) -> tensor<4x4xbf16, #msc.layout<"[{dp},{tp}]">> loc("down.grad")
    %14 = "msc.matmul"(%2, %12) {forward = "down", letters = "mkn", transpose_a = true} : (tensor<4x4xbf16, #msc.layout<"[{dp},{tp}]">>, tensor<4x6xbf16, #msc.layout<"[{dp},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{tp},{}] partial={dp}">> loc("down.grad")
    %15 = "msc.accumulate"(%14) {count = 2 : i64} : (tensor<4x6xbf16, #msc.layout<"[{tp},{}] partial={dp}">>) -> tensor<4x6xbf16, #msc.layout<"[{tp},{}] partial={dp}">> loc("down.grad")
    %16 = "msc.all_reduce"(%15) : (tensor<4x6xbf16, #msc.layout<"[{tp},{}] partial={dp}">>) -> tensor<4x6xbf16, #msc.layout<"[{tp},{}]">> loc("v.grad")
    %17 = "msc.cast"(%16) {by = "propagation", dtype = "f32", inherited = [{by = "down", digits = "{tp}"}]} : (tensor<4x6xbf16, #msc.layout<"[{tp},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{tp},{}]">> loc("v.grad")
    %18 = "msc.matmul"(%0, %13) {forward = "up", letters = "mkn", transpose_a = true} : (tensor<4x6xbf16, #msc.layout<"[{dp},{}]">>, tensor<4x4xbf16, #msc.layout<"[{dp},{tp}]">>) -> tensor<6x4xbf16, #msc.layout<"[{},{tp}] partial={dp}">> loc("up.grad")
    %19 = "msc.accumulate"(%18) {count = 2 : i64} : (tensor<6x4xbf16, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<6x4xbf16, #msc.layout<"[{},{tp}] partial={dp}">> loc("up.grad")
    %20 = "msc.all_reduce"(%19) : (tensor<6x4xbf16, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<6x4xbf16, #msc.layout<"[{},{tp}]">> loc("w.grad")
    %21 = "msc.cast"(%20) {by = "propagation", dtype = "f32", inherited = [{by = "up", digits = "{tp}"}]} : (tensor<6x4xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{tp}]">> loc("w.grad")
    %22 = "msc.sgd"(%w, %21) {lr = 1.0e-01 : f64} : (tensor<6x4xf32, #msc.layout<"[{},{tp}]">>, tensor<6x4xf32, #msc.layout<"[{},{tp}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %23 = "msc.sgd"(%v, %17) {lr = 1.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{tp},{}]">>, tensor<4x6xf32, #msc.layout<"[{tp},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{tp},{}]">> loc("v.update")
    %24 = "msc.all_reduce"(%8) : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%24, %22, %23) {in_layout = ["[]", "[{},{tp}]", "[{tp},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{tp},{}]">>) -> ()
  }) {accumulated = true,
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      partitioned = true,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
