// RUN: msc opt --passes=micro,precision,autodiff,optimizer,tidy,strategies,propagate,search,layouts,assign_stages,accumulate --set micro_size=2 --set device_num=4 --set pipeline_stages=2 --set compute_type=bf16 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --set 'mesh={"tp":2}' %s
// Two stages use u, whose gradient goes on to a layer norm in f32: the sum of both stages stays as narrow as it is sent.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<4xi32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>):
    %0 = "msc.layer_norm"(%x, %g, %b) {in_strategy = [[2, 1], [1], [1]], pipeline_stage = 0 : i64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("u")
    %1 = "msc.matmul"(%0, %v) {in_strategy = [[1, 1], [1, 2]], pipeline_stage = 0 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("c")
    %2 = "msc.matmul"(%0, %w) {in_strategy = [[1, 1], [1, 2]], pipeline_stage = 1 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("d")
    %3 = "msc.mul"(%1, %2) {pipeline_stage = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("e")
    %4 = "msc.softmax_cross_entropy"(%3, %y) {pipeline_stage = 1 : i64} : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<f32> loc("l")
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "ones", msc.name = "g", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"},
                   {msc.init = "normal:0.1", msc.name = "v", msc.role = "parameter"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x8xf32, #msc.layout<"[{tp},{}]">>, %y: tensor<2xi32, #msc.layout<"[{}]">>, %g: tensor<8xf32, #msc.layout<"[{}]">>, %b: tensor<8xf32, #msc.layout<"[{}]">>, %v: tensor<8x8xf32, #msc.layout<"[{},{tp}]">>, %w: tensor<8x8xf32, #msc.layout<"[{},{tp}]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.layer_norm"(%x, %g, %b) {by = "user", in_layout = ["[{tp},{}]", "[{}]", "[{}]"], stage = 0 : i64} : (tensor<2x8xf32, #msc.layout<"[{tp},{}]">>, tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<2x8xf32, #msc.layout<"[{tp},{}]">> loc("u")
    %1 = "msc.cast"(%0) {dtype = "bf16", in_layout = ["[{tp},{}]"], stage = 0 : i64} : (tensor<2x8xf32, #msc.layout<"[{tp},{}]">>) -> tensor<2x8xbf16, #msc.layout<"[{tp},{}]">>
    %2 = "msc.broadcast_to"(%1) {by = "copy", in_layout = ["[{},{}]"], shape = [2, 8], stage = 0 : i64} : (tensor<2x8xbf16, #msc.layout<"[{tp},{}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{}]">>
    %3 = "msc.cast"(%v) {dtype = "bf16", in_layout = ["[{},{tp}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{tp}]">> loc("v")
    %4 = "msc.matmul"(%2, %3) {by = "user", in_layout = ["[{},{}]", "[{},{tp}]"], stage = 0 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{tp}]">> loc("c")
    %5 = "msc.cast"(%w) {dtype = "bf16", in_layout = ["[{},{tp}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{tp}]">> loc("w")
    %6 = "msc.matmul"(%2, %5) {by = "user", in_layout = ["[{},{}]", "[{},{tp}]"], stage = 1 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{}]">>, tensor<8x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{tp}]">> loc("d")
    %7 = "msc.mul"(%4, %6) {by = "propagation", in_layout = ["[{},{tp}]", "[{},{tp}]"], inherited = [{by = "c", digits = "{tp}"}], stage = 1 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>, tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{tp}]">> loc("e")
    %8 = "msc.cast"(%7) {dtype = "f32", in_layout = ["[{},{tp}]"], stage = 1 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xf32, #msc.layout<"[{},{tp}]">>
    %9 = "msc.softmax_cross_entropy"(%8, %y) {by = "propagation", in_layout = ["[{},{tp}]", "[{}]"], inherited = [{by = "e", digits = "{tp}"}], stage = 1 : i64} : (tensor<2x8xf32, #msc.layout<"[{},{tp}]">>, tensor<2xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("l")
    %10 = "msc.accumulate"(%9) {count = 2 : i64, mean = true, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("l")
    %11 = "msc.constant"() {by = "search", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %12 = "msc.softmax_cross_entropy_grad"(%8, %y, %11) {forward = "l", in_layout = ["[{},{tp}]", "[{}]", "[]"], letters = "Ac", stage = 1 : i64} : (tensor<2x8xf32, #msc.layout<"[{},{tp}]">>, tensor<2xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<2x8xf32, #msc.layout<"[{},{tp}]">> loc("l.grad")
    %13 = "msc.cast"(%12) {dtype = "bf16", forward = "%8", in_layout = ["[{},{tp}]"], letters = "AB", stage = 1 : i64} : (tensor<2x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>
    %14 = "msc.mul"(%13, %6) {forward = "e", in_layout = ["[{},{tp}]", "[{},{tp}]"], letters = "AB", stage = 1 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>, tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{tp}]">> loc("e.grad")
    %15 = "msc.mul"(%13, %4) {forward = "e", in_layout = ["[{},{tp}]", "[{},{tp}]"], letters = "AB", stage = 1 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>, tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{tp}]">> loc("e.grad")
    %16 = "msc.matmul"(%15, %5) {forward = "d", in_layout = ["[{},{tp}]", "[{},{tp}]"], letters = "mnk", stage = 1 : i64, transpose_b = true} : (tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>, tensor<8x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{}] partial={tp}">> loc("d.grad")
    %17 = "msc.matmul"(%2, %15) {forward = "d", in_layout = ["[{},{}]", "[{},{tp}]"], letters = "mkn", stage = 1 : i64, transpose_a = true} : (tensor<2x8xbf16, #msc.layout<"[{},{}]">>, tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{tp}]">> loc("d.grad")
    %18 = "msc.cast"(%17) {dtype = "f32", forward = "w", in_layout = ["[{},{tp}]"], letters = "AB", stage = 1 : i64} : (tensor<8x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{tp}]">> loc("w.grad")
    %19 = "msc.accumulate"(%18) {count = 2 : i64, stage = 1 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{tp}]">> loc("w.grad")
    %20 = "msc.matmul"(%14, %3) {forward = "c", in_layout = ["[{},{tp}]", "[{},{tp}]"], letters = "mnk", stage = 0 : i64, transpose_b = true} : (tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>, tensor<8x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<2x8xbf16, #msc.layout<"[{},{}] partial={tp}">> loc("c.grad")
    %21 = "msc.matmul"(%2, %14) {forward = "c", in_layout = ["[{},{}]", "[{},{tp}]"], letters = "mkn", stage = 0 : i64, transpose_a = true} : (tensor<2x8xbf16, #msc.layout<"[{},{}]">>, tensor<2x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xbf16, #msc.layout<"[{},{tp}]">> loc("c.grad")
    %22 = "msc.add"(%16, %20) {by = "copy", in_layout = ["[{},{}] partial={tp}", "[{},{}] partial={tp}"], stage = 0 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{}] partial={tp}">>, tensor<2x8xbf16, #msc.layout<"[{},{}] partial={tp}">>) -> tensor<2x8xbf16, #msc.layout<"[{},{}] partial={tp}">> loc("c.grad")
    %23 = "msc.cast"(%21) {dtype = "f32", forward = "v", in_layout = ["[{},{tp}]"], letters = "AB", stage = 0 : i64} : (tensor<8x8xbf16, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{tp}]">> loc("v.grad")
    %24 = "msc.accumulate"(%23) {count = 2 : i64, stage = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{tp}]">> loc("v.grad")
    %25 = "msc.cast"(%22) {dtype = "f32", forward = "%1", in_layout = ["[{tp},{}]"], letters = "AB", stage = 0 : i64} : (tensor<2x8xbf16, #msc.layout<"[{},{}] partial={tp}">>) -> tensor<2x8xf32, #msc.layout<"[{tp},{}]">>
    %26:2 = "msc.vjp"(%x, %g, %b, %25) {forward = "u", in_layout = ["[{tp},{}]", "[{}]", "[{}]", "[{tp},{}]"], letters = "Ad", of = [0], op = "layer_norm", stage = 0 : i64, wrt = [1, 2]} : (tensor<2x8xf32, #msc.layout<"[{tp},{}]">>, tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>, tensor<2x8xf32, #msc.layout<"[{tp},{}]">>) -> (tensor<8xf32, #msc.layout<"[{}] partial={tp}">>, tensor<8xf32, #msc.layout<"[{}] partial={tp}">>) loc("u.grad")
    %27 = "msc.accumulate"(%26#1) {count = 2 : i64, stage = 0 : i64} : (tensor<8xf32, #msc.layout<"[{}] partial={tp}">>) -> tensor<8xf32, #msc.layout<"[{}] partial={tp}">> loc("u.grad")
    %28 = "msc.accumulate"(%26#0) {count = 2 : i64, stage = 0 : i64} : (tensor<8xf32, #msc.layout<"[{}] partial={tp}">>) -> tensor<8xf32, #msc.layout<"[{}] partial={tp}">> loc("u.grad")
    %29 = "msc.sgd"(%g, %28) {in_layout = ["[{}]", "[{}]"], lr = 1.0e-01 : f64, stage = 0 : i64} : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}] partial={tp}">>) -> tensor<8xf32, #msc.layout<"[{}]">> loc("g.update")
    %30 = "msc.sgd"(%b, %27) {in_layout = ["[{}]", "[{}]"], lr = 1.0e-01 : f64, stage = 0 : i64} : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}] partial={tp}">>) -> tensor<8xf32, #msc.layout<"[{}]">> loc("b.update")
    %31 = "msc.sgd"(%v, %24) {in_layout = ["[{},{tp}]", "[{},{tp}]"], lr = 1.0e-01 : f64, stage = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{tp}]">>, tensor<8x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{tp}]">> loc("v.update")
    %32 = "msc.sgd"(%w, %19) {in_layout = ["[{},{tp}]", "[{},{tp}]"], lr = 1.0e-01 : f64, stage = 1 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{tp}]">>, tensor<8x8xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    "msc.return"(%10, %29, %30, %31, %32) {in_layout = ["[]", "[{}]", "[{}]", "[{},{tp}]", "[{},{tp}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>, tensor<8x8xf32, #msc.layout<"[{},{tp}]">>, tensor<8x8xf32, #msc.layout<"[{},{tp}]">>) -> ()
  }) {accumulated = true,
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "ones", msc.name = "g", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"},
                   {msc.init = "normal:0.1", msc.name = "v", msc.role = "parameter"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      least_plan_ns = 6 : i64,
      least_step_ns = 0 : i64,
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      results = ["loss", "g", "b", "v", "w"],
      searched = true,
      step_ns = 142663 : i64,
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5]} : () -> ()
}
