// RUN: msc opt --passes=micro,precision,autodiff,optimizer,tidy,strategies,layouts,assign_stages,accumulate --set micro_size=4 --set device_num=2 --set pipeline_stages=2 --set compute_type=bf16 --set parallel_mode=data_parallel %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32>, %y: tensor<16xi32>, %w: tensor<8x8xf32>):
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 0 : i64} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32> loc("a")
    %1 = "msc.relu"(%0) {pipeline_stage = 0 : i64} : (tensor<16x8xf32>) -> tensor<16x8xf32> loc("b")
    %2 = "msc.matmul"(%1, %w) {pipeline_stage = 1 : i64} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32> loc("c")
    %3 = "msc.softmax_cross_entropy"(%2, %y) {pipeline_stage = 1 : i64} : (tensor<16x8xf32>, tensor<16xi32>) -> tensor<f32> loc("l")
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>, %w: tensor<8x8xf32, #msc.layout<"[{},{}]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.cast"(%x) {dtype = "bf16", in_layout = ["[{},{}]"], stage = 0 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16", in_layout = ["[{},{}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{}]">> loc("w")
    %2 = "msc.matmul"(%0, %1) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 0 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("a")
    %3 = "msc.relu"(%2) {by = "default", in_layout = ["[{},{}]"], stage = 0 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("b")
    %4 = "msc.matmul"(%3, %1) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 1 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("c")
    %5 = "msc.cast"(%4) {dtype = "f32", in_layout = ["[{},{}]"], stage = 1 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xf32, #msc.layout<"[{},{}]">>
    %6 = "msc.softmax_cross_entropy"(%5, %y) {by = "default", in_layout = ["[{},{}]", "[{}]"], stage = 1 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("l")
    %7 = "msc.accumulate"(%6) {count = 4 : i64, mean = true, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("l")
    %8 = "msc.constant"() {by = "default", value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %9 = "msc.softmax_cross_entropy_grad"(%5, %y, %8) {forward = "l", in_layout = ["[{},{}]", "[{}]", "[]"], letters = "Ac", stage = 1 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x8xf32, #msc.layout<"[{},{}]">> loc("l.grad")
    %10 = "msc.cast"(%9) {dtype = "bf16", forward = "%5", in_layout = ["[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">>
    %11 = "msc.matmul"(%10, %1) {forward = "c", in_layout = ["[{},{}]", "[{},{}]"], letters = "mnk", stage = 1 : i64, transpose_b = true} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("c.grad")
    %12 = "msc.matmul"(%3, %10) {forward = "c", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 1 : i64, transpose_a = true} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{}]">> loc("c.grad")
    %13 = "msc.cast"(%12) {dtype = "f32", forward = "w", in_layout = ["[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.grad")
    %14 = "msc.accumulate"(%13) {count = 4 : i64, stage = 1 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.grad")
    %15 = "msc.constant"() {by = "default", value = dense<0.0e+00> : tensor<bf16>} : () -> tensor<bf16, #msc.layout<"[]">> loc("b.grad")
    %16 = "msc.compare"(%3, %15) {forward = "b", in_layout = ["[{},{}]", "[]"], letters = "AB", predicate = "gt", stage = 0 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<bf16, #msc.layout<"[]">>) -> tensor<4x8xi1, #msc.layout<"[{},{}]">> loc("b.grad")
    %17 = "msc.select"(%16, %11, %15) {forward = "b", in_layout = ["[{},{}]", "[{},{}]", "[]"], letters = "AB", stage = 0 : i64} : (tensor<4x8xi1, #msc.layout<"[{},{}]">>, tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<bf16, #msc.layout<"[]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("b.grad")
    %18 = "msc.matmul"(%0, %17) {forward = "a", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 0 : i64, transpose_a = true} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{}]">> loc("a.grad")
    %19 = "msc.cast"(%18) {dtype = "f32", forward = "w", in_layout = ["[{},{}]"], letters = "AB", stage = 0 : i64} : (tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.grad")
    %20 = "msc.accumulate"(%19) {count = 4 : i64, stage = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.grad")
    %21 = "msc.add"(%14, %20) {in_layout = ["[{},{}]", "[{},{}]"], stage = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("a.grad")
    %22 = "msc.sgd"(%w, %21) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f64, stage = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.update")
    "msc.return"(%7, %22) {in_layout = ["[]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {accumulated = true,
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 4 : i64,
      micro_mean = true,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 2]} : () -> ()
}
