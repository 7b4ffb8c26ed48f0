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
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">, msc.outputs = [["loss", -1, false]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %w: tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "propagation", inherited = [{by = "up.in0", digits = "{dp}"}, {by = "up.out0", digits = "{tp}"}]} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first")
    %1 = "msc.all_gather"(%0) : (tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %2 = "msc.tanh"(%1) {by = "user"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %3 = "msc.shard"(%2) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("down.in0")
    %4 = "msc.matmul"(%3, %v) {by = "propagation", inherited = [{by = "down.in0", digits = "{tp}"}]} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">> loc("second")
    %5 = "msc.all_reduce"(%4) : (tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("down.out0")
    %6 = "msc.all_gather"(%5) : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("down.out0")
    %7 = "msc.mul"(%6, %6) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("square")
    %8 = "msc.reduce_sum"(%7) {by = "user", dims = [0, 1]} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("sum")
    %9 = "msc.constant"() {by = "search", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %10 = "msc.shard"(%6) : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("square.grad")
    %11 = "msc.add"(%10, %10) {forward = "second", letters = "mn"} : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>, tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("square.grad")
    %12 = "msc.matmul"(%11, %v) {forward = "second", letters = "mnk", transpose_b = true} : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("second.grad")
    %13 = "msc.matmul"(%3, %11) {forward = "second", letters = "mkn", transpose_a = true} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">> loc("second.grad")
    %14 = "msc.mul"(%2, %2) {forward = "%2", letters = "AB"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %15 = "msc.sub"(%9, %14) {forward = "%2", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %16 = "msc.all_gather"(%12) : (tensor<8x12xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<8x12xf32, #msc.layout<"[{},{}] partial={dp}">> loc("between.grad")
    %17 = "msc.mul"(%16, %15) {forward = "%2", letters = "AB"} : (tensor<8x12xf32, #msc.layout<"[{},{}] partial={dp}">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}] partial={dp}">> loc("between.grad")
    %18 = "msc.shard"(%17) : (tensor<8x12xf32, #msc.layout<"[{},{}] partial={dp}">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("first.grad")
    %19 = "msc.reduce_scatter"(%18) : (tensor<8x12xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first.grad")
    %20 = "msc.matmul"(%x, %19) {forward = "first", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("first.grad")
    %21 = "msc.all_reduce"(%20) : (tensor<4x12xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %22 = "msc.sgd"(%w, %21) {lr = 1.0e-01 : f32} : (tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %23 = "msc.sgd"(%v, %13) {lr = 1.0e-01 : f32} : (tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">> loc("v.update")
    "msc.return"(%8, %22, %23) {in_layout = ["[]", "[{},{tp}]", "[{tp},{dp}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %w: tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "propagation", inherited = [{by = "up.in0", digits = "{dp}"}, {by = "up.out0", digits = "{tp}"}]} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first")
    %1 = "msc.all_gather"(%0) : (tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %2 = "msc.tanh"(%1) {by = "user"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %3 = "msc.shard"(%2) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("down.in0")
    %4 = "msc.matmul"(%3, %v) {by = "propagation", inherited = [{by = "down.in0", digits = "{tp}"}]} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">> loc("second")
    %5 = "msc.all_reduce"(%4) : (tensor<8x4xf32, #msc.layout<"[{},{dp}] partial={tp}">>) -> tensor<8x4xf32, #msc.layout<"[{},{dp}]">> loc("down.out0")
    %6 = "msc.all_gather"(%5) : (tensor<8x4xf32, #msc.layout<"[{},{dp}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("down.out0")
    %7 = "msc.mul"(%6, %6) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("square")
    %8 = "msc.reduce_sum"(%7) {by = "user", dims = [0, 1]} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("sum")
    "msc.return"(%8) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
