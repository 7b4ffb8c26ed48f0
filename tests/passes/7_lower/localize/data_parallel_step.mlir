// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=localize %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %2 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.softmax_cross_entropy_grad"(%0, %y, %2) {forward = "loss", letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %4 = "msc.matmul"(%x, %3) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("dense.grad")
    %5 = "msc.all_reduce"(%4) : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %6:2 = "msc.momentum"(%w, %w.m, %5) {lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) loc("w.update")
    %7 = "msc.all_reduce"(%1) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%7, %6#0, %6#1) : (tensor<f32, #msc.layout<"[]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %2 = "msc.all_reduce"(%1) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.all_gather"(%0) : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%2, %3) : (tensor<f32, #msc.layout<"[]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %y: tensor<2xi32>, %w: tensor<4x6xf32>, %w.m: tensor<4x6xf32>):
    %0 = "msc.matmul"(%x, %w) {blocks = 4 : i64, part_of = [tensor<8x6xf32, #msc.layout<"[{d},{}]">>]} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {blocks = 2 : i64, count = 8 : i64, part_of = [tensor<f32, #msc.layout<"[] partial={d}">>]} : (tensor<2x6xf32>, tensor<2xi32>) -> tensor<f32> loc("loss")
    %2 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.softmax_cross_entropy_grad"(%0, %y, %2) {count = 8 : i64, part_of = [tensor<8x6xf32, #msc.layout<"[{d},{}]">>]} : (tensor<2x6xf32>, tensor<2xi32>, tensor<f32>) -> tensor<2x6xf32> loc("loss.grad")
    %4 = "msc.matmul"(%x, %3) {blocks = 2 : i64, part_of = [tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x4xf32>, tensor<2x6xf32>) -> tensor<4x6xf32> loc("dense.grad")
    %5 = "msc.comm"(%4) {dims = [4, 6], from = ["[{},{}] partial={d}"], part_of = [tensor<4x6xf32, #msc.layout<"[{},{}]">>], reduction = "sum", shape = [4, 6], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x6xf32>) -> tensor<4x6xf32> loc("w.update")
    %6:2 = "msc.momentum"(%w, %w.m, %5) {lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64, part_of = [tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>]} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) loc("w.update")
    %7 = "msc.comm"(%1) {dims = [], from = ["[] partial={d}"], part_of = [tensor<f32, #msc.layout<"[]">>], reduction = "sum", shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32>
    "msc.return"(%7, %6#0, %6#1) : (tensor<f32>, tensor<4x6xf32>, tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 4]},
                   {msc.layout = "[{d}]", msc.name = "y", msc.role = "label", msc.shape = [8]},
                   {msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [4, 6]},
                   {msc.init = "zeros", msc.layout = "[{},{}]", msc.name = "w.m", msc.owner = "w", msc.role = "state", msc.shape = [4, 6]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [4, 6], [4, 6]],
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %y: tensor<2xi32>, %w: tensor<4x6xf32>):
    %0 = "msc.matmul"(%x, %w) {blocks = 4 : i64, part_of = [tensor<8x6xf32, #msc.layout<"[{d},{}]">>]} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {blocks = 2 : i64, count = 8 : i64, part_of = [tensor<f32, #msc.layout<"[] partial={d}">>]} : (tensor<2x6xf32>, tensor<2xi32>) -> tensor<f32> loc("loss")
    %2 = "msc.comm"(%1) {dims = [], from = ["[] partial={d}"], part_of = [tensor<f32, #msc.layout<"[]">>], reduction = "sum", shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32>
    %3 = "msc.comm"(%0) {dims = [8, 6], from = ["[{d},{}]"], part_of = [tensor<8x6xf32, #msc.layout<"[{},{}]">>], reduction = "sum", shape = [8, 6], to = ["[{},{}]"], verb = "all_gather"} : (tensor<2x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%2, %3) : (tensor<f32>, tensor<8x6xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 4]},
                   {msc.layout = "[{d}]", msc.name = "y", msc.role = "label", msc.shape = [8]},
                   {msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [4, 6]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]", "[{},{}]"],
      result_shapes = [[], [8, 6]],
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
}
