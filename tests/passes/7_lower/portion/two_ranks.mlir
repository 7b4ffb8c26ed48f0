// RUN: msc opt --until portion --set score_portions=2 --set device_num=2 --set parallel_mode=data_parallel --set compute_type=bf16 --check-numerics %s
// Two ranks: a portion of every rank's rows is no part of a whole.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %v: tensor<6x6xf32>, %w: tensor<6x8xf32>):
    %0 = "msc.matmul"(%x, %v) : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32> loc("a")
    %1 = "msc.matmul"(%0, %w) : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32> loc("b")
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x8xf32>, tensor<8xi32>) -> tensor<f32> loc("l")
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
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4xi32>, %v: tensor<6x6xf32>, %w: tensor<6x8xf32>):
    %0 = "msc.cast"(%x) {dtype = "bf16", part_of = [tensor<8x6xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %1 = "msc.cast"(%v) {dtype = "bf16", part_of = [tensor<6x6xbf16, #msc.layout<"[{},{}]">>]} : (tensor<6x6xf32>) -> tensor<6x6xbf16> loc("v")
    %2 = "msc.gemm"(%0, %1) {part_of = [tensor<8x6xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xbf16> loc("a")
    %3 = "msc.cast"(%w) {dtype = "bf16", part_of = [tensor<6x8xbf16, #msc.layout<"[{},{}]">>]} : (tensor<6x8xf32>) -> tensor<6x8xbf16> loc("w")
    %4 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.slice"(%2) {limit = [2, 6], start = [0, 0]} : (tensor<4x6xbf16>) -> tensor<2x6xbf16> loc("b")
    %6 = "msc.gemm"(%5, %3) : (tensor<2x6xbf16>, tensor<6x8xbf16>) -> tensor<2x8xbf16> loc("b")
    %7 = "msc.cast"(%6) {dtype = "f32"} : (tensor<2x8xbf16>) -> tensor<2x8xf32>
    %8 = "msc.slice"(%y) {limit = [2], start = [0]} : (tensor<4xi32>) -> tensor<2xi32> loc("l")
    %9 = "msc.softmax_cross_entropy"(%7, %8) {count = 8 : i64, part_of = [tensor<f32, #msc.layout<"[] partial={d}">>]} : (tensor<2x8xf32>, tensor<2xi32>) -> tensor<f32> loc("l")
    %10 = "msc.slice"(%y) {limit = [2], start = [0]} : (tensor<4xi32>) -> tensor<2xi32> loc("l.grad")
    %11 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %12 = "msc.softmax_cross_entropy_grad"(%7, %10, %11) {count = 8 : i64} : (tensor<2x8xf32>, tensor<2xi32>, tensor<f32>) -> tensor<2x8xf32> loc("l.grad")
    %13 = "msc.cast"(%12) {dtype = "bf16"} : (tensor<2x8xf32>) -> tensor<2x8xbf16>
    %14 = "msc.gemm"(%13, %3) {transpose_b = true} : (tensor<2x8xbf16>, tensor<6x8xbf16>) -> tensor<2x6xbf16> loc("b.grad")
    %15 = "msc.slice"(%2) {limit = [2, 6], start = [0, 0]} : (tensor<4x6xbf16>) -> tensor<2x6xbf16> loc("b.grad")
    %16 = "msc.gemm"(%15, %13) {dtype = "f32", part_of = [tensor<6x8xbf16, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xbf16>, tensor<2x8xbf16>) -> tensor<6x8xf32> loc("b.grad")
    %17 = "msc.slice"(%2) {limit = [4, 6], start = [2, 0]} : (tensor<4x6xbf16>) -> tensor<2x6xbf16> loc("b")
    %18 = "msc.gemm"(%17, %3) : (tensor<2x6xbf16>, tensor<6x8xbf16>) -> tensor<2x8xbf16> loc("b")
    %19 = "msc.cast"(%18) {dtype = "f32"} : (tensor<2x8xbf16>) -> tensor<2x8xf32>
    %20 = "msc.slice"(%y) {limit = [4], start = [2]} : (tensor<4xi32>) -> tensor<2xi32> loc("l")
    %21 = "msc.softmax_cross_entropy"(%19, %20) {count = 8 : i64, part_of = [tensor<f32, #msc.layout<"[] partial={d}">>]} : (tensor<2x8xf32>, tensor<2xi32>) -> tensor<f32> loc("l")
    %22 = "msc.add"(%9, %21) {part_of = [tensor<f32, #msc.layout<"[] partial={d}">>]} : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("l")
    %23 = "msc.slice"(%y) {limit = [4], start = [2]} : (tensor<4xi32>) -> tensor<2xi32> loc("l.grad")
    %24 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %25 = "msc.softmax_cross_entropy_grad"(%19, %23, %24) {count = 8 : i64} : (tensor<2x8xf32>, tensor<2xi32>, tensor<f32>) -> tensor<2x8xf32> loc("l.grad")
    %26 = "msc.cast"(%25) {dtype = "bf16"} : (tensor<2x8xf32>) -> tensor<2x8xbf16>
    %27 = "msc.gemm"(%26, %3) {transpose_b = true} : (tensor<2x8xbf16>, tensor<6x8xbf16>) -> tensor<2x6xbf16> loc("b.grad")
    %28 = "msc.slice"(%2) {limit = [4, 6], start = [2, 0]} : (tensor<4x6xbf16>) -> tensor<2x6xbf16> loc("b.grad")
    %29 = "msc.gemm"(%28, %26, %16) {dtype = "f32", part_of = [tensor<6x8xbf16, #msc.layout<"[{},{}] partial={d}">>], takes = "add", transpose_a = true} : (tensor<2x6xbf16>, tensor<2x8xbf16>, tensor<6x8xf32>) -> tensor<6x8xf32> loc("b.grad")
    %30 = "msc.concat"(%14, %27) {dim = 0 : i64, part_of = [tensor<8x6xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<2x6xbf16>, tensor<2x6xbf16>) -> tensor<4x6xbf16> loc("b.grad")
    %31 = "msc.gemm"(%0, %30) {dtype = "f32", part_of = [tensor<6x6xbf16, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<6x6xf32> loc("a.grad")
    %32:2 = "msc.comm"(%29, %31) {bucket = 0 : i64, dims = [6, 8, 6, 6], from = ["[{},{}] partial={d}", "[{},{}] partial={d}"], part_of = [tensor<6x8xf32, #msc.layout<"[{},{}]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>], reduction = "sum", shape = [6, 8, 6, 6], to = ["[{},{}]", "[{},{}]"], verb = "all_reduce"} : (tensor<6x8xf32>, tensor<6x6xf32>) -> (tensor<6x8xf32>, tensor<6x6xf32>) loc("w.update")
    %33 = "msc.sgd"(%v, %32#1) {lr = 1.0e-01 : f64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}]">>]} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32> loc("v.update")
    %34 = "msc.sgd"(%w, %32#0) {lr = 1.0e-01 : f64, part_of = [tensor<6x8xf32, #msc.layout<"[{},{}]">>]} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32> loc("w.update")
    %35 = "msc.comm"(%22) {dims = [], from = ["[] partial={d}"], part_of = [tensor<f32, #msc.layout<"[]">>], reduction = "sum", shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32>
    "msc.return"(%35, %33, %34) : (tensor<f32>, tensor<6x6xf32>, tensor<6x8xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 6]},
                   {msc.layout = "[{d}]", msc.name = "y", msc.role = "label", msc.shape = [8]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "v", msc.role = "parameter", msc.shape = [6, 6]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [6, 8]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [6, 6], [6, 8]],
      results = ["loss", "v", "w"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4xi32>, %v: tensor<6x6xf32>, %w: tensor<6x8xf32>):
    %0 = "msc.cast"(%x) {dtype = "bf16", part_of = [tensor<8x6xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %1 = "msc.cast"(%v) {dtype = "bf16", part_of = [tensor<6x6xbf16, #msc.layout<"[{},{}]">>]} : (tensor<6x6xf32>) -> tensor<6x6xbf16> loc("v")
    %2 = "msc.gemm"(%0, %1) {part_of = [tensor<8x6xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xbf16> loc("a")
    %3 = "msc.cast"(%w) {dtype = "bf16", part_of = [tensor<6x8xbf16, #msc.layout<"[{},{}]">>]} : (tensor<6x8xf32>) -> tensor<6x8xbf16> loc("w")
    %4 = "msc.gemm"(%2, %3) {part_of = [tensor<8x8xbf16, #msc.layout<"[{d},{}]">>]} : (tensor<4x6xbf16>, tensor<6x8xbf16>) -> tensor<4x8xbf16> loc("b")
    %5 = "msc.cast"(%4) {dtype = "f32", part_of = [tensor<8x8xf32, #msc.layout<"[{d},{}]">>]} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) {count = 8 : i64, part_of = [tensor<f32, #msc.layout<"[] partial={d}">>]} : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<f32> loc("l")
    %7 = "msc.comm"(%6) {dims = [], from = ["[] partial={d}"], part_of = [tensor<f32, #msc.layout<"[]">>], reduction = "sum", shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32>
    "msc.return"(%7) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 6]},
                   {msc.layout = "[{d}]", msc.name = "y", msc.role = "label", msc.shape = [8]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "v", msc.role = "parameter", msc.shape = [6, 6]},
                   {msc.init = "normal:0.1", msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [6, 8]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]"],
      result_shapes = [[]],
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
