// RUN: msc opt --set device_num=4 --set compute_type=bf16 --set parallel_mode=data_parallel --set zero=1 --set 'parallel_optimizer_config={"parallel_optimizer_threshold":0}' --check-numerics --passes=precision,autodiff,optimizer,tidy,strategies,propagate,search,layouts,zero,redistribute %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>, %v: tensor<4x6xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32> loc("up")
    %1 = "msc.matmul"(%0, %v) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32> loc("down")
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
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<6x4xf32, #msc.layout<"[{},{d}]">>, %v: tensor<4x6xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x6xbf16, #msc.layout<"[{d},{}]">> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x4xf32, #msc.layout<"[{},{d}]">>) -> tensor<6x4xbf16, #msc.layout<"[{},{d}]">> loc("w")
    %2 = "msc.all_gather"(%1) : (tensor<6x4xbf16, #msc.layout<"[{},{d}]">>) -> tensor<6x4xbf16, #msc.layout<"[{},{}]">> loc("up")
    %3 = "msc.matmul"(%0, %2) {by = "default"} : (tensor<8x6xbf16, #msc.layout<"[{d},{}]">>, tensor<6x4xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x4xbf16, #msc.layout<"[{d},{}]">> loc("up")
    %4 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{d},{}]">> loc("v")
    %5 = "msc.all_gather"(%4) : (tensor<4x6xbf16, #msc.layout<"[{d},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{},{}]">> loc("down")
    %6 = "msc.matmul"(%3, %5) {by = "default"} : (tensor<8x4xbf16, #msc.layout<"[{d},{}]">>, tensor<4x6xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x6xbf16, #msc.layout<"[{d},{}]">> loc("down")
    %7 = "msc.cast"(%6) {dtype = "f32"} : (tensor<8x6xbf16, #msc.layout<"[{d},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">>
    %8 = "msc.softmax_cross_entropy"(%7, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %9 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %10 = "msc.softmax_cross_entropy_grad"(%7, %y, %9) {forward = "loss", letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %11 = "msc.cast"(%10) {dtype = "bf16", forward = "%7", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x6xbf16, #msc.layout<"[{d},{}]">>
    %12 = "msc.matmul"(%11, %5) {forward = "%6", letters = "mnk", transpose_b = true} : (tensor<8x6xbf16, #msc.layout<"[{d},{}]">>, tensor<4x6xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x4xbf16, #msc.layout<"[{d},{}]">> loc("down.grad")
    %13 = "msc.matmul"(%3, %11) {forward = "%6", letters = "mkn", transpose_a = true} : (tensor<8x4xbf16, #msc.layout<"[{d},{}]">>, tensor<8x6xbf16, #msc.layout<"[{d},{}]">>) -> tensor<4x6xbf16, #msc.layout<"[{},{}] partial={d}">> loc("down.grad")
    %14 = "msc.cast"(%13) {dtype = "f32", forward = "v", letters = "AB"} : (tensor<4x6xbf16, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("v.grad")
    %15 = "msc.matmul"(%0, %12) {forward = "%3", letters = "mkn", transpose_a = true} : (tensor<8x6xbf16, #msc.layout<"[{d},{}]">>, tensor<8x4xbf16, #msc.layout<"[{d},{}]">>) -> tensor<6x4xbf16, #msc.layout<"[{},{}] partial={d}">> loc("up.grad")
    %16 = "msc.cast"(%15) {dtype = "f32", forward = "w", letters = "AB"} : (tensor<6x4xbf16, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">> loc("w.grad")
    %17 = "msc.reduce_scatter"(%16) : (tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x4xf32, #msc.layout<"[{},{d}]">> loc("w.update")
    %18 = "msc.sgd"(%w, %17) {lr = 1.0e-01 : f64} : (tensor<6x4xf32, #msc.layout<"[{},{d}]">>, tensor<6x4xf32, #msc.layout<"[{},{d}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{d}]">> loc("w.update")
    %19 = "msc.reduce_scatter"(%14) : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">> loc("v.update")
    %20 = "msc.sgd"(%v, %19) {lr = 1.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">> loc("v.update")
    %21 = "msc.all_reduce"(%8) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%21, %18, %20) {in_layout = ["[]", "[{},{d}]", "[{d},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{d}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.zero = "parameter, update and state in [{},{d}]: dimension 1 over 4 ranks, 24 of 96 bytes"},
                   {msc.name = "v", msc.role = "parameter", msc.zero = "parameter, update and state in [{d},{}]: dimension 0 over 4 ranks, 24 of 96 bytes"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
