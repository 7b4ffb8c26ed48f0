// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,evaluate,accumulate,redistribute,split_sections --set micro_size=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
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
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{d}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %2 = "msc.all_reduce"(%1) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%2) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{d}]">>, %train.sum2: tensor<f32, #msc.layout<"[] partial={d}">>, %micro: tensor<i64, #msc.layout<"[]">>, %train.sum6: tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %2 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64, #msc.layout<"[]">>
    %3 = "msc.compare"(%micro, %2) {predicate = "eq"} : (tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">>
    %4 = "msc.add"(%train.sum2, %1) : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %5 = "msc.select"(%3, %1, %4) : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[] partial={d}">>, tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %6 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.softmax_cross_entropy_grad"(%0, %y, %6) : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %8 = "msc.matmul"(%x, %7) {transpose_a = true} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    %9 = "msc.add"(%train.sum6, %8) : (tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    %10 = "msc.select"(%3, %8, %9) : (tensor<i1, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    "msc.return"(%5, %10) : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.loss = true, msc.name = "train.sum2", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.name = "train.sum6", msc.role = "sum"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["train.sum2", "train.sum6"],
      section = "FB",
      stage = 0 : i64,
      sym_name = "train.FB",
      ties = [3, 5]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.sum6: tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %w.m: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %train.sum2: tensor<f32, #msc.layout<"[] partial={d}">>):
    %0 = "msc.all_reduce"(%train.sum6) : (tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %1:2 = "msc.momentum"(%w, %w.m, %0) {lr = 1.0e-01 : f32, momentum = 9.0e-01 : f32} : (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) loc("w.update")
    %2 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.mul"(%train.sum2, %2) : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %4 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%4, %1#0, %1#1) : (tensor<f32, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "train.sum6", msc.role = "sum"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.name = "train.sum2", msc.role = "sum"}],
      loss = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["loss", "w", "w.m"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.U",
      ties = [-1, 1, 2]} : () -> ()
}
