// RUN: msc opt --set device_num=4 --set 'mesh={"dp":2,"tp":2}' --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --from=annotations --until=redistribute --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x12xf32>, %v: tensor<12x4xf32>):
    %0 = "msc.matmul"(%x, %w) {shard = {in_layout = ["[{dp},{}]"], name = "up", out_layout = ["[{dp},{tp}]"]}} : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32> loc("first")
    %1 = "msc.tanh"(%0) : (tensor<8x12xf32>) -> tensor<8x12xf32> loc("between")
    %2 = "msc.matmul"(%1, %v) {shard = {in_layout = ["[{},{tp}]"], name = "down"}} : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32> loc("second")
    %3 = "msc.mul"(%2, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc("square")
    %4 = "msc.reduce_sum"(%3) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32> loc("sum")
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">, msc.outputs = [["loss", -1, false, "adds_up"]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %w: tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "propagation", inherited = [{by = "up.in0", digits = "{dp}"}, {by = "up.out0", digits = "{tp}"}]} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first")
    %1 = "msc.all_gather"(%0) : (tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{}]">> loc("between")
    %2 = "msc.all_gather"(%1) : (tensor<8x12xf32, #msc.layout<"[{dp},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %3 = "msc.tanh"(%2) {by = "user"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %4 = "msc.shard"(%3) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("down.in0")
    %5 = "msc.matmul"(%4, %v) {by = "propagation", inherited = [{by = "down.in0", digits = "{tp}"}]} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">> loc("second")
    %6 = "msc.all_reduce"(%5) : (tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("down.out0")
    %7 = "msc.all_gather"(%6) : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("down.out0")
    %8 = "msc.mul"(%7, %7) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("square")
    %9 = "msc.reduce_sum"(%8) {by = "user", dims = [0, 1]} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("sum")
    %10 = "msc.constant"() {by = "search", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %11 = "msc.shard"(%7) : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("square.grad")
    %12 = "msc.add"(%11, %11) {forward = "second", letters = "mn"} : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>, tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("square.grad")
    %13 = "msc.matmul"(%12, %v) {forward = "second", letters = "mnk", transpose_b = true} : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("second.grad")
    %14 = "msc.matmul"(%4, %12) {forward = "second", letters = "mkn", transpose_a = true} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">> loc("second.grad")
    %15 = "msc.mul"(%3, %3) {forward = "%3", letters = "AB"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %16 = "msc.sub"(%10, %15) {forward = "%3", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %17 = "msc.all_reduce"(%13) : (tensor<8x12xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("between.grad")
    %18 = "msc.all_gather"(%17) : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %19 = "msc.mul"(%18, %16) {forward = "%3", letters = "AB"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %20 = "msc.shard"(%19) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first.grad")
    %21 = "msc.matmul"(%x, %20) {forward = "first", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("first.grad")
    %22 = "msc.all_reduce"(%21) : (tensor<4x12xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %23 = "msc.sgd"(%w, %22) {lr = 1.0e-01 : f32} : (tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %24 = "msc.sgd"(%v, %14) {lr = 1.0e-01 : f32} : (tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">> loc("v.update")
    "msc.return"(%9, %23, %24) {in_layout = ["[]", "[{},{tp}]", "[{tp},{dp}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      least_plan_ns = 16 : i64,
      least_step_ns = 0 : i64,
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "v"],
      searched = true,
      step_ns = 123072 : i64,
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %w: tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "propagation", inherited = [{by = "up.in0", digits = "{dp}"}, {by = "up.out0", digits = "{tp}"}]} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first")
    %1 = "msc.all_gather"(%0) : (tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{}]">> loc("between")
    %2 = "msc.all_gather"(%1) : (tensor<8x12xf32, #msc.layout<"[{dp},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %3 = "msc.tanh"(%2) {by = "user"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %4 = "msc.shard"(%3) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("down.in0")
    %5 = "msc.matmul"(%4, %v) {by = "propagation", inherited = [{by = "down.in0", digits = "{tp}"}]} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">> loc("second")
    %6 = "msc.all_reduce"(%5) : (tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("down.out0")
    %7 = "msc.all_gather"(%6) : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("down.out0")
    %8 = "msc.mul"(%7, %7) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("square")
    %9 = "msc.reduce_sum"(%8) {by = "user", dims = [0, 1]} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("sum")
    "msc.return"(%9) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      least_plan_ns = 16 : i64,
      least_step_ns = 0 : i64,
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      searched = true,
      step_ns = 123072 : i64,
      sym_name = "forward"} : () -> ()
}
