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
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %w: tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<12x4xf32, #msc.layout<"[{tp},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "propagation"} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first")
    %1 = "msc.all_gather"(%0) : (tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %2 = "msc.tanh"(%1) {by = "user"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %3 = "msc.shard"(%2) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("down.in0")
    %4 = "msc.matmul"(%3, %v) {by = "propagation"} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}] partial={tp}">> loc("second")
    %5 = "msc.all_reduce"(%4) : (tensor<8x4xf32, #msc.layout<"[{},{}] partial={tp}">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("down.out0")
    %6 = "msc.mul"(%5, %5) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("square")
    %7 = "msc.reduce_sum"(%6) {by = "user", dims = [0, 1]} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("sum")
    %8 = "msc.constant"() {by = "search", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %9 = "msc.add"(%5, %5) {forward = "second", letters = "mn"} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("square.grad")
    %10 = "msc.matmul"(%9, %v) {forward = "second", letters = "mnk", transpose_b = true} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("second.grad")
    %11 = "msc.matmul"(%3, %9) {forward = "second", letters = "mkn", transpose_a = true} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<12x4xf32, #msc.layout<"[{tp},{}]">> loc("second.grad")
    %12 = "msc.mul"(%2, %2) {forward = "%2", letters = "AB"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %13 = "msc.sub"(%8, %12) {forward = "%2", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %14 = "msc.all_gather"(%10) : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %15 = "msc.mul"(%14, %13) {forward = "%2", letters = "AB"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between.grad")
    %16 = "msc.shard"(%15) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first.grad")
    %17 = "msc.matmul"(%x, %16) {forward = "first", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("first.grad")
    %18 = "msc.all_reduce"(%17) : (tensor<4x12xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %19 = "msc.sgd"(%w, %18) {lr = 1.0e-01 : f32} : (tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{tp}]">> loc("w.update")
    %20 = "msc.sgd"(%v, %11) {lr = 1.0e-01 : f32} : (tensor<12x4xf32, #msc.layout<"[{tp},{}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{}]">>) -> tensor<12x4xf32, #msc.layout<"[{tp},{}]">> loc("v.update")
    "msc.return"(%7, %19, %20) {in_layout = ["[]", "[{},{tp}]", "[{tp},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "v"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %w: tensor<4x12xf32, #msc.layout<"[{},{tp}]">>, %v: tensor<12x4xf32, #msc.layout<"[{tp},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "propagation"} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x12xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">> loc("first")
    %1 = "msc.all_gather"(%0) : (tensor<8x12xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %2 = "msc.tanh"(%1) {by = "user"} : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}]">> loc("between")
    %3 = "msc.shard"(%2) : (tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{tp}]">> loc("down.in0")
    %4 = "msc.matmul"(%3, %v) {by = "propagation"} : (tensor<8x12xf32, #msc.layout<"[{},{tp}]">>, tensor<12x4xf32, #msc.layout<"[{tp},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}] partial={tp}">> loc("second")
    %5 = "msc.all_reduce"(%4) : (tensor<8x4xf32, #msc.layout<"[{},{}] partial={tp}">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("down.out0")
    %6 = "msc.mul"(%5, %5) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>, tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}]">> loc("square")
    %7 = "msc.reduce_sum"(%6) {by = "user", dims = [0, 1]} : (tensor<8x4xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("sum")
    "msc.return"(%7) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
