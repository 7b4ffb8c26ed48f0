// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,assign_stages,accumulate --set micro_size=2 --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
// A loss of two terms, each made in another stage, is one sum over the micro-batches, and a mean.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x6xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 0 : i64} : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {pipeline_stage = 0 : i64} : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.tanh"(%0) {pipeline_stage = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) {pipeline_stage = 1 : i64} : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32>
    %4 = "msc.add"(%1, %3) {pipeline_stage = 1 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %w: tensor<6x6xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 0 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", in_layout = ["[{},{}]", "[{}]"], stage = 0 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %2 = "msc.tanh"(%0) {by = "default", in_layout = ["[{},{}]"], stage = 1 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %3 = "msc.softmax_cross_entropy"(%2, %y) {by = "default", in_layout = ["[{},{}]", "[{}]"], stage = 1 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.add"(%1, %3) {by = "default", in_layout = ["[]", "[]"], stage = 1 : i64} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.accumulate"(%4) {count = 2 : i64, mean = true, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.softmax_cross_entropy_grad"(%2, %y, %6) {forward = "%3", in_layout = ["[{},{}]", "[{}]", "[]"], letters = "Ac", stage = 1 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %8 = "msc.mul"(%2, %2) {forward = "%2", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %9 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %10 = "msc.sub"(%9, %8) {forward = "%2", in_layout = ["[]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<f32, #msc.layout<"[]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %11 = "msc.mul"(%7, %10) {forward = "%2", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %12 = "msc.softmax_cross_entropy_grad"(%0, %y, %6) {forward = "%1", in_layout = ["[{},{}]", "[{}]", "[]"], letters = "Ac", stage = 0 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %13 = "msc.add"(%11, %12) {forward = "%0", in_layout = ["[{},{}]", "[{},{}]"], letters = "mn", stage = 0 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %14 = "msc.matmul"(%x, %13) {forward = "%0", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 0 : i64, transpose_a = true} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<6x6xf32, #msc.layout<"[{},{}]">>
    %15 = "msc.accumulate"(%14) {count = 2 : i64, stage = 0 : i64} : (tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> tensor<6x6xf32, #msc.layout<"[{},{}]">>
    %16 = "msc.sgd"(%w, %15) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f32, stage = 0 : i64} : (tensor<6x6xf32, #msc.layout<"[{},{}]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> tensor<6x6xf32, #msc.layout<"[{},{}]">> loc("w.update")
    "msc.return"(%5, %16) {in_layout = ["[]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {accumulated = true,
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
