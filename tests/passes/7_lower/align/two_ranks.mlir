// RUN: msc opt --until align --set device_num=2 --set parallel_mode=data_parallel --set compute_type=bf16 --check-numerics %s
// Two ranks: the wholes of the parts are widened with them.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %y: tensor<8xi32>, %v: tensor<8x8xf32>, %w: tensor<8x1027xf32>):
    %0 = "msc.matmul"(%x, %v) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("a")
    %1 = "msc.matmul"(%0, %w) : (tensor<8x8xf32>, tensor<8x1027xf32>) -> tensor<8x1027xf32> loc("b")
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x1027xf32>, tensor<8xi32>) -> tensor<f32> loc("l")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.1", msc.name = "v", msc.role = "parameter"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">, msc.outputs = [["loss", -1, true, "adds_up"]], msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<4xi32>, %v: tensor<8x8xf32>, %w: tensor<8x1027xf32>):
    %0 = "msc.cast"(%x) {dtype = "bf16", part_of = [tensor<8x8xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x8xf32>) -> tensor<4x8xbf16> loc("x")
    %1 = "msc.cast"(%v) {dtype = "bf16", part_of = [tensor<8x8xbf16, #msc.layout<"[{},{}]">>]} : (tensor<8x8xf32>) -> tensor<8x8xbf16> loc("v")
    %2 = "msc.gemm"(%0, %1) {part_of = [tensor<8x8xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16> loc("a")
    %3 = "msc.cast"(%w) {dtype = "bf16", part_of = [tensor<8x1027xbf16, #msc.layout<"[{},{}]">>]} : (tensor<8x1027xf32>) -> tensor<8x1027xbf16> loc("w")
    %4 = "msc.pad"(%3) {high = [0, 61], low = [0, 0], part_of = [tensor<8x1088xbf16, #msc.layout<"[{},{}]">>]} : (tensor<8x1027xbf16>) -> tensor<8x1088xbf16>
    %5 = "msc.gemm"(%2, %4) {part_of = [tensor<8x1088xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x8xbf16>, tensor<8x1088xbf16>) -> tensor<4x1088xbf16> loc("b")
    %6 = "msc.cast"(%5) {dtype = "f32", part_of = [tensor<8x1088xf32, #msc.layout<"[{d},{}]">>]} : (tensor<4x1088xbf16>) -> tensor<4x1088xf32>
    %7 = "msc.softmax_cross_entropy"(%6, %y) {classes = 1027 : i64, count = 8 : i64, part_of = [tensor<f32, #msc.layout<"[] partial={d}">>], whole = 1027 : i64} : (tensor<4x1088xf32>, tensor<4xi32>) -> tensor<f32> loc("l")
    %8 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %9 = "msc.softmax_cross_entropy_grad"(%6, %y, %8) {classes = 1027 : i64, count = 8 : i64, part_of = [tensor<8x1088xf32, #msc.layout<"[{d},{}]">>], whole = 1027 : i64} : (tensor<4x1088xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x1088xf32> loc("l.grad")
    %10 = "msc.cast"(%9) {dtype = "bf16", part_of = [tensor<8x1088xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x1088xf32>) -> tensor<4x1088xbf16>
    %11 = "msc.gemm"(%10, %4) {part_of = [tensor<8x8xbf16, #msc.layout<"[{d},{}]">>], transpose_b = true} : (tensor<4x1088xbf16>, tensor<8x1088xbf16>) -> tensor<4x8xbf16> loc("b.grad")
    %12 = "msc.gemm"(%2, %10) {dtype = "f32", part_of = [tensor<8x1088xbf16, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<4x8xbf16>, tensor<4x1088xbf16>) -> tensor<8x1088xf32> loc("b.grad")
    %13 = "msc.slice"(%12) {limit = [8, 1027], part_of = [tensor<8x1027xbf16, #msc.layout<"[{},{}] partial={d}">>], start = [0, 0]} : (tensor<8x1088xf32>) -> tensor<8x1027xf32> loc("b.grad")
    %14 = "msc.gemm"(%0, %11) {dtype = "f32", part_of = [tensor<8x8xbf16, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32> loc("a.grad")
    %15:2 = "msc.comm"(%13, %14) {bucket = 0 : i64, dims = [8, 1027, 8, 8], from = ["[{},{}] partial={d}", "[{},{}] partial={d}"], part_of = [tensor<8x1027xf32, #msc.layout<"[{},{}]">>, tensor<8x8xf32, #msc.layout<"[{},{}]">>], reduction = "sum", shape = [8, 1027, 8, 8], to = ["[{},{}]", "[{},{}]"], verb = "all_reduce"} : (tensor<8x1027xf32>, tensor<8x8xf32>) -> (tensor<8x1027xf32>, tensor<8x8xf32>) loc("w.update")
    %16 = "msc.sgd"(%v, %15#1) {lr = 1.0e-01 : f64, part_of = [tensor<8x8xf32, #msc.layout<"[{},{}]">>]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("v.update")
    %17 = "msc.sgd"(%w, %15#0) {lr = 1.0e-01 : f64, part_of = [tensor<8x1027xf32, #msc.layout<"[{},{}]">>]} : (tensor<8x1027xf32>, tensor<8x1027xf32>) -> tensor<8x1027xf32> loc("w.update")
    %18 = "msc.comm"(%7) {dims = [], from = ["[] partial={d}"], part_of = [tensor<f32, #msc.layout<"[]">>], reduction = "sum", shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32>
    "msc.return"(%18, %16, %17) : (tensor<f32>, tensor<8x8xf32>, tensor<8x1027xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 8]},
                   {msc.layout = "[{d}]", msc.name = "y", msc.role = "label", msc.shape = [8]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "v", msc.role = "parameter", msc.shape = [8, 8]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [8, 1027]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [8, 8], [8, 1027]],
      results = ["loss", "v", "w"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<4xi32>, %v: tensor<8x8xf32>, %w: tensor<8x1027xf32>):
    %0 = "msc.cast"(%x) {dtype = "bf16", part_of = [tensor<8x8xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x8xf32>) -> tensor<4x8xbf16> loc("x")
    %1 = "msc.cast"(%v) {dtype = "bf16", part_of = [tensor<8x8xbf16, #msc.layout<"[{},{}]">>]} : (tensor<8x8xf32>) -> tensor<8x8xbf16> loc("v")
    %2 = "msc.gemm"(%0, %1) {part_of = [tensor<8x8xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16> loc("a")
    %3 = "msc.cast"(%w) {dtype = "bf16", part_of = [tensor<8x1027xbf16, #msc.layout<"[{},{}]">>]} : (tensor<8x1027xf32>) -> tensor<8x1027xbf16> loc("w")
    %4 = "msc.pad"(%3) {high = [0, 61], low = [0, 0], part_of = [tensor<8x1088xbf16, #msc.layout<"[{},{}]">>]} : (tensor<8x1027xbf16>) -> tensor<8x1088xbf16>
    %5 = "msc.gemm"(%2, %4) {part_of = [tensor<8x1088xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x8xbf16>, tensor<8x1088xbf16>) -> tensor<4x1088xbf16> loc("b")
    %6 = "msc.cast"(%5) {dtype = "f32", part_of = [tensor<8x1088xf32, #msc.layout<"[{d},{}]">>]} : (tensor<4x1088xbf16>) -> tensor<4x1088xf32>
    %7 = "msc.softmax_cross_entropy"(%6, %y) {classes = 1027 : i64, count = 8 : i64, part_of = [tensor<f32, #msc.layout<"[] partial={d}">>], whole = 1027 : i64} : (tensor<4x1088xf32>, tensor<4xi32>) -> tensor<f32> loc("l")
    %8 = "msc.comm"(%7) {dims = [], from = ["[] partial={d}"], part_of = [tensor<f32, #msc.layout<"[]">>], reduction = "sum", shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32>
    "msc.return"(%8) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 8]},
                   {msc.layout = "[{d}]", msc.name = "y", msc.role = "label", msc.shape = [8]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "v", msc.role = "parameter", msc.shape = [8, 8]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [8, 1027]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]"],
      result_shapes = [[]],
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
