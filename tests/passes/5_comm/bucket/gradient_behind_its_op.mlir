// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --set enable_alltoall=false --from=autodiff --until=bucket --check-numerics %s
// The gradient of "b" reads nothing of it, and both gather what they multiply: not together, or the gradient would come first.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %w1: tensor<8x8xf32>, %w2: tensor<8x8xf32>):
    %0 = "msc.mul"(%x, %w1) {in_strategy = [[8, 1], [8, 1]]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("a")
    %1 = "msc.mul"(%0, %w2) {in_strategy = [[1, 8], [1, 8]]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("b")
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<8x8xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.5", msc.name = "w1", msc.role = "parameter"},
                   {msc.init = "normal:0.5", msc.name = "w2", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-02 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w1: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w2: tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>):
    %0 = "msc.mul"(%x, %w1) {by = "user", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b.grad"}]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a")
    %1 = "msc.all_gather"(%0) {bucket = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("b")
    %2 = "msc.shard"(%1) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">> loc("b")
    %3 = "msc.all_gather"(%2) {bucket = 2 : i64} : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">> loc("b")
    %4 = "msc.shard"(%3) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">> loc("b")
    %5 = "msc.all_gather"(%4) {bucket = 4 : i64} : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">> loc("b")
    %6 = "msc.shard"(%5) : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">> loc("b")
    %7 = "msc.mul"(%6, %w2) {by = "user", conflicts = [{by = "a", dim = 1 : i64, here = "{d}", there = "{}", value = "a"}]} : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>, tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">> loc("b")
    %8 = "msc.all_gather"(%7) : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">> loc("loss")
    %9 = "msc.shard"(%8) : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">> loc("loss")
    %10 = "msc.all_gather"(%9) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">> loc("loss")
    %11 = "msc.shard"(%10) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">> loc("loss")
    %12 = "msc.all_gather"(%11) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("loss")
    %13 = "msc.shard"(%12) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("loss")
    %14 = "msc.reduce_mean"(%13) {by = "default", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b"}], dims = [0, 1]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %15 = "msc.constant"() {by = "default", value = dense<1.5625e-02> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">> loc("loss.grad")
    %16 = "msc.mul"(%15, %w2) {forward = "%7", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">> loc("b.grad")
    %17 = "msc.all_gather"(%16) {bucket = 5 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">> loc("a.grad")
    %18 = "msc.mul"(%15, %6) {forward = "%7", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">> loc("b.grad")
    %19 = "msc.shard"(%17) : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">> loc("a.grad")
    %20 = "msc.all_gather"(%19) {bucket = 3 : i64} : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">> loc("a.grad")
    %21 = "msc.shard"(%20) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">> loc("a.grad")
    %22 = "msc.all_gather"(%21) {bucket = 1 : i64} : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("a.grad")
    %23 = "msc.shard"(%22) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a.grad")
    %24 = "msc.mul"(%23, %x) {forward = "a", letters = "AB"} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a.grad")
    %25 = "msc.sgd"(%w1, %24) {lr = 1.0e-02 : f64} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("w1.update")
    %26 = "msc.sgd"(%w2, %18) {lr = 1.0e-02 : f64} : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>, tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">> loc("w2.update")
    %27 = "msc.all_reduce"(%14) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%27, %25, %26) {in_layout = ["[]", "[{d},{}]", "[{},{d:(4)2,d:(2)2,d:(1)2}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.5", msc.name = "w1", msc.role = "parameter"},
                   {msc.init = "normal:0.5", msc.name = "w2", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w1", "w2"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w1: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w2: tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>):
    %0 = "msc.mul"(%x, %w1) {by = "user", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b.grad"}]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a")
    %1 = "msc.all_gather"(%0) : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("b")
    %2 = "msc.shard"(%1) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">> loc("b")
    %3 = "msc.all_gather"(%2) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">> loc("b")
    %4 = "msc.shard"(%3) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">> loc("b")
    %5 = "msc.all_gather"(%4) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">> loc("b")
    %6 = "msc.shard"(%5) : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">> loc("b")
    %7 = "msc.mul"(%6, %w2) {by = "user", conflicts = [{by = "a", dim = 1 : i64, here = "{d}", there = "{}", value = "a"}]} : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>, tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">> loc("b")
    %8 = "msc.all_gather"(%7) : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2,d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">> loc("loss")
    %9 = "msc.shard"(%8) : (tensor<8x8xf32, #msc.layout<"[{},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">> loc("loss")
    %10 = "msc.all_gather"(%9) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2,d:(2)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">> loc("loss")
    %11 = "msc.shard"(%10) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">> loc("loss")
    %12 = "msc.all_gather"(%11) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("loss")
    %13 = "msc.shard"(%12) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("loss")
    %14 = "msc.reduce_mean"(%13) {by = "default", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b"}], dims = [0, 1]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %15 = "msc.all_reduce"(%14) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%15) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.5", msc.name = "w1", msc.role = "parameter"},
                   {msc.init = "normal:0.5", msc.name = "w2", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
