// RUN: msc opt --passes=autodiff,optimizer,tidy,strategies,layouts,zero,expand,redistribute,recompute --set device_num=2 --set parallel_mode=semi_auto_parallel --set zero=3 --set parallel_optimizer_config='{"parallel_optimizer_threshold":0}' %s
// With zero 3 the whole of %w2 is not kept; the backward gathers it once, as early as the copy of %1 needs it.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x4xf32>, %w2: tensor<4x2xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w1) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.matmul"(%0, %w2) {recompute = true} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %2 = "msc.tanh"(%1) {recompute = true} : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x2xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %w1: tensor<6x4xf32, #msc.layout<"[{d},{}]">>, %w2: tensor<4x2xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>):
    %0 = "msc.all_gather"(%w1) : (tensor<6x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.matmul"(%x, %0) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{d},{}]">>
    %2 = "msc.all_gather"(%w2) : (tensor<4x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %3 = "msc.matmul"(%1, %2) {by = "default"} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %4 = "msc.tanh"(%3) {by = "default"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %5 = "msc.softmax_cross_entropy"(%4, %y) {by = "default"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %6 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.all_gather"(%w2) {recompute = true} : (tensor<4x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %8 = "msc.matmul"(%1, %7) {by = "default", recompute = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %9 = "msc.tanh"(%8) {by = "default", recompute = true} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %10 = "msc.softmax_cross_entropy_grad"(%9, %y, %6) {forward = "%5", letters = "Ac"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %11 = "msc.mul"(%9, %9) {forward = "%4", letters = "AB"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %12 = "msc.sub"(%6, %11) {forward = "%4", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %13 = "msc.mul"(%10, %12) {forward = "%4", letters = "AB"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %14 = "msc.matmul"(%13, %7) {forward = "%3", letters = "mnk", transpose_b = true} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{d},{}]">>
    %15 = "msc.matmul"(%1, %13) {forward = "%3", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}] partial={d}">>
    %16 = "msc.matmul"(%x, %14) {forward = "%1", letters = "mkn", transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>
    %17 = "msc.reduce_scatter"(%16) : (tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x4xf32, #msc.layout<"[{d},{}]">> loc("w1.update")
    %18 = "msc.sgd"(%w1, %17) {lr = 1.0e-01 : f32} : (tensor<6x4xf32, #msc.layout<"[{d},{}]">>, tensor<6x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{d},{}]">> loc("w1.update")
    %19 = "msc.reduce_scatter"(%15) : (tensor<4x2xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x2xf32, #msc.layout<"[{d},{}]">> loc("w2.update")
    %20 = "msc.sgd"(%w2, %19) {lr = 1.0e-01 : f32} : (tensor<4x2xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{d},{}]">> loc("w2.update")
    %21 = "msc.all_reduce"(%5) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%21, %18, %20) {in_layout = ["[]", "[{d},{}]", "[{d},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.gathered = true, msc.name = "w1", msc.role = "parameter", msc.zero = "parameter, update and state in [{d},{}]: dimension 0 over 2 ranks, 48 of 96 bytes"},
                   {msc.gathered = true, msc.name = "w2", msc.role = "parameter", msc.zero = "parameter, update and state in [{d},{}]: dimension 0 over 2 ranks, 16 of 32 bytes"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w1", "w2"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
