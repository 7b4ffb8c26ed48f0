// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,assign_stages --set micro_size=2 --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %v: tensor<6x4xf32>, %w: tensor<4x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %v) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.relu"(%0) {pipeline_stage = 0 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %w) {pipeline_stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
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
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %v: tensor<6x4xf32, #msc.layout<"[{},{}]">>, %w: tensor<4x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.matmul"(%x, %v) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 0 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.relu"(%0) {by = "default", in_layout = ["[{},{}]"], stage = 0 : i64} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.matmul"(%1, %w) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 1 : i64} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    %3 = "msc.softmax_cross_entropy"(%2, %y) {by = "default", in_layout = ["[{},{}]", "[{}]"], stage = 1 : i64} : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.softmax_cross_entropy_grad"(%2, %y, %4) {forward = "%3", in_layout = ["[{},{}]", "[{}]", "[]"], letters = "Ac", stage = 1 : i64} : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    %6 = "msc.matmul"(%5, %w) {forward = "%2", in_layout = ["[{},{}]", "[{},{}]"], letters = "mnk", stage = 1 : i64, transpose_b = true} : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %7 = "msc.matmul"(%1, %5) {forward = "%2", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 1 : i64, transpose_a = true} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    %8 = "msc.constant"() {by = "default", value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %9 = "msc.compare"(%1, %8) {forward = "%1", in_layout = ["[{},{}]", "[]"], letters = "AB", predicate = "gt", stage = 0 : i64} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x4xi1, #msc.layout<"[{},{}]">>
    %10 = "msc.select"(%9, %6, %8) {forward = "%1", in_layout = ["[{},{}]", "[{},{}]", "[]"], letters = "AB", stage = 0 : i64} : (tensor<4x4xi1, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %11 = "msc.matmul"(%x, %10) {forward = "%0", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 0 : i64, transpose_a = true} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">>
    %12 = "msc.sgd"(%v, %11) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f32, stage = 0 : i64} : (tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">> loc("v.update")
    %13 = "msc.sgd"(%w, %7) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f32, stage = 1 : i64} : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">> loc("w.update")
    "msc.return"(%3, %12, %13) {in_layout = ["[]", "[{},{}]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      results = ["loss", "v", "w"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
