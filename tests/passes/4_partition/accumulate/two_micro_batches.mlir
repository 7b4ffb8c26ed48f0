// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,accumulate --set micro_size=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "momentum", lr = 1.0e-01 : f32, momentum = 9.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{d}]">>, %micro: tensor<i64, #msc.layout<"[]">>, %w.m: tensor<6x3xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %2 = "msc.accumulate"(%1) {count = 2 : i64, mean = true} : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %3 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%0, %y, %3) {forward = "%1", in_layout = ["[{d},{}]", "[{d}]", "[]"], letters = "Ac"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %5 = "msc.matmul"(%x, %4) {forward = "%0", in_layout = ["[{d},{}]", "[{d},{}]"], letters = "mkn", transpose_a = true} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    %6 = "msc.accumulate"(%5) {count = 2 : i64} : (tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    %7:2 = "msc.momentum"(%w, %w.m, %6) {in_layout = ["[{},{}]", "[{},{}]", "[{},{}]"], lr = 1.0e-01 : f32, momentum = 9.0e-01 : f32} : (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) loc("w.update")
    "msc.return"(%2, %7#0, %7#1) {in_layout = ["[]", "[{},{}]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {accumulated = true,
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 1, 4]} : () -> ()
}
