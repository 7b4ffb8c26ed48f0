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
  ^bb0(%x: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w1: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w2: tensor<8x8xf32, #msc.layout<"[{},{d}]">>):
    %0 = "msc.mul"(%x, %w1) {by = "user", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b.grad"}]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a")
    %1 = "msc.all_gather"(%0) {bucket = 0 : i64} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("b")
    %2 = "msc.all_gather"(%1) {bucket = 2 : i64} : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{}]">> loc("b")
    %3 = "msc.all_gather"(%2) {bucket = 4 : i64} : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("b")
    %4 = "msc.shard"(%3) : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("b")
    %5 = "msc.mul"(%4, %w2) {by = "user", conflicts = [{by = "a", dim = 1 : i64, here = "{d}", there = "{}", value = "a"}]} : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>, tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("b")
    %6 = "msc.all_gather"(%5) : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(1)4}]">> loc("loss")
    %7 = "msc.all_gather"(%6) : (tensor<8x8xf32, #msc.layout<"[{},{d:(1)4}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(1)2}]">> loc("loss")
    %8 = "msc.all_gather"(%7) : (tensor<8x8xf32, #msc.layout<"[{},{d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("loss")
    %9 = "msc.shard"(%8) : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("loss")
    %10 = "msc.reduce_mean"(%9) {by = "default", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b"}], dims = [0, 1]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %11 = "msc.constant"() {by = "default", value = dense<1.5625e-02> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">> loc("loss.grad")
    %12 = "msc.mul"(%11, %w2) {forward = "%5", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("b.grad")
    %13 = "msc.all_gather"(%12) {bucket = 1 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(1)4}]">> loc("a.grad")
    %14 = "msc.all_gather"(%13) {bucket = 3 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{d:(1)4}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(1)2}]">> loc("a.grad")
    %15 = "msc.all_gather"(%14) {bucket = 5 : i64} : (tensor<8x8xf32, #msc.layout<"[{},{d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("a.grad")
    %16 = "msc.mul"(%11, %4) {forward = "%5", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("b.grad")
    %17 = "msc.shard"(%15) : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a.grad")
    %18 = "msc.mul"(%17, %x) {forward = "a", letters = "AB"} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a.grad")
    %19 = "msc.sgd"(%w1, %18) {lr = 1.0e-02 : f64} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("w1.update")
    %20 = "msc.sgd"(%w2, %16) {lr = 1.0e-02 : f64} : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>, tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("w2.update")
    %21 = "msc.all_reduce"(%10) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%21, %19, %20) {in_layout = ["[]", "[{d},{}]", "[{},{d}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.5", msc.name = "w1", msc.role = "parameter"},
                   {msc.init = "normal:0.5", msc.name = "w2", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w1", "w2"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w1: tensor<8x8xf32, #msc.layout<"[{d},{}]">>, %w2: tensor<8x8xf32, #msc.layout<"[{},{d}]">>):
    %0 = "msc.mul"(%x, %w1) {by = "user", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b.grad"}]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>, tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("a")
    %1 = "msc.all_gather"(%0) : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("b")
    %2 = "msc.all_gather"(%1) : (tensor<8x8xf32, #msc.layout<"[{d:(1)4},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{}]">> loc("b")
    %3 = "msc.all_gather"(%2) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("b")
    %4 = "msc.shard"(%3) : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("b")
    %5 = "msc.mul"(%4, %w2) {by = "user", conflicts = [{by = "a", dim = 1 : i64, here = "{d}", there = "{}", value = "a"}]} : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>, tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("b")
    %6 = "msc.all_gather"(%5) : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(1)4}]">> loc("loss")
    %7 = "msc.all_gather"(%6) : (tensor<8x8xf32, #msc.layout<"[{},{d:(1)4}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d:(1)2}]">> loc("loss")
    %8 = "msc.all_gather"(%7) : (tensor<8x8xf32, #msc.layout<"[{},{d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("loss")
    %9 = "msc.shard"(%8) : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("loss")
    %10 = "msc.reduce_mean"(%9) {by = "default", conflicts = [{by = "b", dim = 0 : i64, here = "{d}", there = "{}", value = "b"}], dims = [0, 1]} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %11 = "msc.all_reduce"(%10) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%11) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.5", msc.name = "w1", msc.role = "parameter"},
                   {msc.init = "normal:0.5", msc.name = "w2", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
