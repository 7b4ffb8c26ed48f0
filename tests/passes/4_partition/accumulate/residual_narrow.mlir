// RUN: msc opt --passes=micro,precision,autodiff,optimizer,tidy,strategies,layouts,assign_stages,accumulate --set micro_size=4 --set device_num=2 --set pipeline_stages=2 --set compute_type=bf16 --set parallel_mode=data_parallel %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32>, %y: tensor<16xi32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>):
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 0 : i64} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32> loc("a")
    %1 = "msc.matmul"(%0, %v) {pipeline_stage = 1 : i64} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32> loc("b")
    %2 = "msc.add"(%1, %0) {pipeline_stage = 1 : i64} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32> loc("c")
    %3 = "msc.softmax_cross_entropy"(%2, %y) {pipeline_stage = 1 : i64} : (tensor<16x8xf32>, tensor<16xi32>) -> tensor<f32> loc("l")
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "normal:0.1", msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>, %w: tensor<8x8xf32, #msc.layout<"[{},{}]">>, %v: tensor<8x8xf32, #msc.layout<"[{},{}]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.cast"(%x) {dtype = "bf16", in_layout = ["[{},{}]"], stage = 0 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16", in_layout = ["[{},{}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{}]">> loc("w")
    %2 = "msc.matmul"(%0, %1) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 0 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("a")
    %3 = "msc.cast"(%v) {dtype = "bf16", in_layout = ["[{},{}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{}]">> loc("v")
    %4 = "msc.matmul"(%2, %3) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 1 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("b")
    %5 = "msc.add"(%4, %2) {by = "default", in_layout = ["[{},{}]", "[{},{}]"], stage = 1 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("c")
    %6 = "msc.cast"(%5) {dtype = "f32", in_layout = ["[{},{}]"], stage = 1 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xf32, #msc.layout<"[{},{}]">>
    %7 = "msc.softmax_cross_entropy"(%6, %y) {by = "default", in_layout = ["[{},{}]", "[{}]"], stage = 1 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("l")
    %8 = "msc.accumulate"(%7) {count = 4 : i64, mean = true, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("l")
    %9 = "msc.constant"() {by = "default", value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %10 = "msc.softmax_cross_entropy_grad"(%6, %y, %9) {forward = "l", in_layout = ["[{},{}]", "[{}]", "[]"], letters = "Ac", stage = 1 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x8xf32, #msc.layout<"[{},{}]">> loc("l.grad")
    %11 = "msc.cast"(%10) {dtype = "bf16", forward = "%6", in_layout = ["[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<4x8xf32, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">>
    %12 = "msc.matmul"(%11, %3) {forward = "b", in_layout = ["[{},{}]", "[{},{}]"], letters = "mnk", stage = 1 : i64, transpose_b = true} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("b.grad")
    %13 = "msc.matmul"(%2, %11) {forward = "b", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 1 : i64, transpose_a = true} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{}]">> loc("b.grad")
    %14 = "msc.add"(%11, %12) {forward = "a", in_layout = ["[{},{}]", "[{},{}]"], letters = "mn", stage = 0 : i64} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<4x8xbf16, #msc.layout<"[{},{}]">> loc("b.grad")
    %15 = "msc.cast"(%13) {dtype = "f32", forward = "v", in_layout = ["[{},{}]"], letters = "AB", stage = 1 : i64} : (tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("v.grad")
    %16 = "msc.accumulate"(%15) {count = 4 : i64, stage = 1 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("v.grad")
    %17 = "msc.matmul"(%0, %14) {forward = "a", in_layout = ["[{},{}]", "[{},{}]"], letters = "mkn", stage = 0 : i64, transpose_a = true} : (tensor<4x8xbf16, #msc.layout<"[{},{}]">>, tensor<4x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{}]">> loc("a.grad")
    %18 = "msc.cast"(%17) {dtype = "f32", forward = "w", in_layout = ["[{},{}]"], letters = "AB", stage = 0 : i64} : (tensor<8x8xbf16, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.grad")
    %19 = "msc.accumulate"(%18) {count = 4 : i64, stage = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.grad")
    %20 = "msc.sgd"(%w, %19) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f64, stage = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %21 = "msc.sgd"(%v, %16) {in_layout = ["[{},{}]", "[{},{}]"], lr = 1.0e-01 : f64, stage = 1 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("v.update")
    "msc.return"(%8, %20, %21) {in_layout = ["[]", "[{},{}]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {accumulated = true,
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "normal:0.1", msc.name = "v", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 4 : i64,
      micro_mean = true,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
