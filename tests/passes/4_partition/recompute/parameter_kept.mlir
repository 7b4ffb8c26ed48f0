// RUN: msc opt --passes=autodiff,optimizer,tidy,strategies,layouts,zero,expand,redistribute,recompute --set device_num=2 --set parallel_mode=semi_auto_parallel %s
// The gathered parameter is kept for the copy, and no gradient needs another.
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
                   {msc.layout = "[{d},{}]", msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %w1: tensor<6x4xf32, #msc.layout<"[{},{}]">>, %w2: tensor<4x2xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>):
    %0 = "msc.matmul"(%x, %w1) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.all_gather"(%w2) : (tensor<4x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.matmul"(%0, %1) {by = "default"} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %3 = "msc.tanh"(%2) {by = "default"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %4 = "msc.softmax_cross_entropy"(%3, %y) {by = "default"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %5 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.matmul"(%0, %1) {by = "default", recompute = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %7 = "msc.tanh"(%6) {by = "default", recompute = true} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %8 = "msc.softmax_cross_entropy_grad"(%7, %y, %5) {forward = "%4", letters = "Ac"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %9 = "msc.mul"(%7, %7) {forward = "%3", letters = "AB"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %10 = "msc.sub"(%5, %9) {forward = "%3", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %11 = "msc.mul"(%8, %10) {forward = "%3", letters = "AB"} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{d},{}]">>
    %12 = "msc.matmul"(%11, %1) {forward = "%2", letters = "mnk", transpose_b = true} : (tensor<8x2xf32, #msc.layout<"[{d},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{d},{}]">>
    %13 = "msc.matmul"(%0, %11) {forward = "%2", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x2xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}] partial={d}">>
    %14 = "msc.matmul"(%x, %12) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>
    %15 = "msc.all_reduce"(%14) : (tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">> loc("w1.update")
    %16 = "msc.sgd"(%w1, %15) {lr = 1.0e-01 : f32} : (tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">> loc("w1.update")
    %17 = "msc.all_reduce"(%13) : (tensor<4x2xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">> loc("w2.update")
    %18 = "msc.sgd"(%1, %17) {lr = 1.0e-01 : f32} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">> loc("w2.update")
    %19 = "msc.all_reduce"(%4) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %20 = "msc.shard"(%18) : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{d},{}]">>
    "msc.return"(%19, %16, %20) {in_layout = ["[]", "[{},{}]", "[{d},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<4x2xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.layout = "[{d},{}]", msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w1", "w2"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
