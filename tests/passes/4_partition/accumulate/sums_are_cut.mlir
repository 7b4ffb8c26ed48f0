// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,zero,accumulate,redistribute --set micro_size=2 --set device_num=2 --set zero=2 --set 'parallel_optimizer_config={"parallel_optimizer_threshold":0}' --set parallel_mode=semi_auto_parallel %s
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
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{d}]">>, %micro: tensor<i64, #msc.layout<"[]">>, %w.m: tensor<6x3xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %2 = "msc.accumulate"(%1) {count = 2 : i64, mean = true} : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %3 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%0, %y, %3) {forward = "%1", letters = "Ac"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %5 = "msc.matmul"(%x, %4) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    %6 = "msc.reduce_scatter"(%5) : (tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{d},{}]">>
    %7 = "msc.accumulate"(%6) {count = 2 : i64} : (tensor<6x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{d},{}]">>
    %8 = "msc.shard"(%w) : (tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{d},{}]">> loc("w.update")
    %9:2 = "msc.momentum"(%8, %w.m, %7) {lr = 1.0e-01 : f32, momentum = 9.0e-01 : f32} : (tensor<6x3xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{d},{}]">>) -> (tensor<6x3xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{d},{}]">>) loc("w.update")
    %10 = "msc.all_reduce"(%2) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %11 = "msc.all_gather"(%9#0) : (tensor<6x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%10, %11, %9#1) {in_layout = ["[]", "[{},{}]", "[{d},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {accumulated = true,
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter", msc.zero = "update and state in [{d},{}]: dimension 0 over 2 ranks, 36 of 72 bytes"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      partitioned = true,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 1, 4]} : () -> ()
}
