// RUN: msc opt --passes=autodiff,optimizer,tidy,strategies,layouts,assign_stages,recompute --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
// A block in two stages: each computes again what it made itself; what crosses is kept.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %v: tensor<6x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %v) {pipeline_stage = 0 : i64} : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.tanh"(%0) {pipeline_stage = 0 : i64, recompute = "block"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.sigmoid"(%1) {pipeline_stage = 1 : i64, recompute = "block"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.mul"(%2, %1) {pipeline_stage = 1 : i64, recompute = "block"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %4 = "msc.matmul"(%3, %w) {pipeline_stage = 1 : i64} : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %5 = "msc.softmax_cross_entropy"(%4, %y) {pipeline_stage = 1 : i64} : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
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
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{},{}]">>, %v: tensor<6x6xf32, #msc.layout<"[{},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<8xi32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %v) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 0 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.tanh"(%0) {by = "default", in_layout = ["[{},{}]"], stage = 0 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.sigmoid"(%1) {by = "default", in_layout = ["[{},{}]"], stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %3 = "msc.mul"(%2, %1) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %4 = "msc.matmul"(%3, %w) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<8x3xf32, #msc.layout<"[{},{}]">>
    %5 = "msc.softmax_cross_entropy"(%4, %y) {by = "default", in_layout = ["[{},{}]", "[{}]"], stage = 1 : i64} : (tensor<8x3xf32, #msc.layout<"[{},{}]">>, tensor<8xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.softmax_cross_entropy_grad"(%4, %y, %6) {forward = "%5", in_layout = ["[{},{}]", "[{}]", "[]"], letters = "Ac", stage = 1 : i64} : (tensor<8x3xf32, #msc.layout<"[{},{}]">>, tensor<8xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x3xf32, #msc.layout<"[{},{}]">>
    %8 = "msc.matmul"(%7, %w) {forward = "%4", in_layout = ["[{},{}]", "[{},{}]"], letters = "mnk", stage = 1 : i64, transpose_b = true} : (tensor<8x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %9 = "msc.matmul"(%3, %7) {forward = "%4", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 1 : i64, transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">>
    %10 = "msc.mul"(%8, %1) {forward = "%3", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %11 = "msc.sigmoid"(%1) {by = "default", in_layout = ["[{},{}]"], recompute = true, stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %12 = "msc.mul"(%8, %11) {forward = "%3", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %13 = "msc.sub"(%6, %11) {forward = "%2", in_layout = ["[]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<f32, #msc.layout<"[]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %14 = "msc.mul"(%11, %13) {forward = "%2", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %15 = "msc.mul"(%10, %14) {forward = "%2", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %16 = "msc.add"(%12, %15) {forward = "%1", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 0 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %17 = "msc.tanh"(%0) {by = "default", in_layout = ["[{},{}]"], recompute = true, stage = 0 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %18 = "msc.mul"(%17, %17) {forward = "%1", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 0 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %19 = "msc.sub"(%6, %18) {forward = "%1", in_layout = ["[]", "[{},{}]"], letters = "AB", stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %20 = "msc.mul"(%16, %19) {forward = "%1", in_layout = ["[{},{}]", "[{},{}]"], letters = "AB", stage = 0 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %21 = "msc.matmul"(%x, %20) {forward = "%0", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 0 : i64, transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<6x6xf32, #msc.layout<"[{},{}]">>
    %22 = "msc.sgd"(%v, %21) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f32, stage = 0 : i64} : (tensor<6x6xf32, #msc.layout<"[{},{}]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> tensor<6x6xf32, #msc.layout<"[{},{}]">> loc("v.update")
    %23 = "msc.sgd"(%w, %9) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f32, stage = 1 : i64} : (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">> loc("w.update")
    "msc.return"(%5, %22, %23) {in_layout = ["[]", "[{},{}]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      results = ["loss", "v", "w"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
