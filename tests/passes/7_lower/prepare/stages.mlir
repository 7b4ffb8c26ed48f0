// RUN: msc opt --passes=micro,precision,autodiff,optimizer,tidy,strategies,layouts,assign_stages,accumulate,redistribute,split_sections,localize,prepare --set micro_size=2 --set compute_type=bf16 --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %v: tensor<6x4xf32>, %w: tensor<4x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %v) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.relu"(%0) {pipeline_stage = 0 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %w) {pipeline_stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"stage=2,d=1">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %v: tensor<6x4xf32>, %train.2: tensor<4x4xbf16>, %train.3: tensor<4x6xbf16>, %train.prepared0: tensor<6x4xbf16>):
    %0 = "msc.cast"(%x) {dtype = "bf16", part_of = [tensor<4x6xbf16, #msc.layout<"[{},{}]">>]} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %1 = "msc.matmul"(%0, %train.prepared0) {blocks = 2 : i64, part_of = [tensor<4x4xbf16, #msc.layout<"[{},{}]">>]} : (tensor<4x6xbf16>, tensor<6x4xbf16>) -> tensor<4x4xbf16>
    %2 = "msc.relu"(%1) {part_of = [tensor<4x4xbf16, #msc.layout<"[{},{}]">>]} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
    "msc.stage_send"(%2) {message = 0 : i64, stage = 1 : i64} : (tensor<4x4xbf16>) -> ()
    "msc.return"(%2, %0) : (tensor<4x4xbf16>, tensor<4x6xbf16>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "x", msc.role = "data", msc.shape = [4, 6]},
                   {msc.layout = "[{},{}]", msc.name = "v", msc.role = "parameter", msc.shape = [6, 4]},
                   {msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.2", msc.role = "carried", msc.shape = [4, 4]},
                   {msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.3", msc.role = "carried", msc.shape = [4, 6]},
                   {msc.layout = "[{},{}]", msc.name = "train.prepared0", msc.role = "sum", msc.shape = [6, 4]}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[{},{}]", "[{},{}]"],
      result_shapes = [[4, 4], [4, 6]],
      results = ["train.2", "train.3"],
      section = "F",
      stage = 0 : i64,
      sym_name = "train.0.F",
      ties = [2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<4x3xf32>, %y: tensor<4xi32>, %train.0: tensor<4x3xf32>, %train.1: tensor<4x4xbf16>, %train.prepared0: tensor<4x3xbf16>):
    %0 = "msc.stage_recv"() {message = 0 : i64, part_of = [tensor<4x4xbf16, #msc.layout<"[{},{}]">>], stage = 0 : i64, type = tensor<4x4xbf16>} : () -> tensor<4x4xbf16>
    %1 = "msc.matmul"(%0, %train.prepared0) {blocks = 4 : i64, part_of = [tensor<4x3xbf16, #msc.layout<"[{},{}]">>]} : (tensor<4x4xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    %2 = "msc.cast"(%1) {dtype = "f32", part_of = [tensor<4x3xf32, #msc.layout<"[{},{}]">>]} : (tensor<4x3xbf16>) -> tensor<4x3xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) {blocks = 4 : i64, count = 4 : i64, part_of = [tensor<f32, #msc.layout<"[]">>]} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.stage_send"(%3) {message = 1 : i64, stage = 0 : i64} : (tensor<f32>) -> ()
    "msc.return"(%2, %0) : (tensor<4x3xf32>, tensor<4x4xbf16>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [4, 3]},
                   {msc.layout = "[{}]", msc.name = "y", msc.role = "label", msc.shape = [4]},
                   {msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.0", msc.role = "carried", msc.shape = [4, 3]},
                   {msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.1", msc.role = "carried", msc.shape = [4, 4]},
                   {msc.layout = "[{},{}]", msc.name = "train.prepared0", msc.role = "sum", msc.shape = [4, 3]}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[{},{}]", "[{},{}]"],
      result_shapes = [[4, 3], [4, 4]],
      results = ["train.0", "train.1"],
      section = "F",
      stage = 1 : i64,
      sym_name = "train.1.F",
      ties = [2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.sum8: tensor<f32>, %micro: tensor<i64>, %train.2: tensor<4x4xbf16>, %train.3: tensor<4x6xbf16>, %train.sum21: tensor<6x4xf32>):
    %0 = "msc.stage_recv"() {message = 1 : i64, part_of = [tensor<f32, #msc.layout<"[]">>], stage = 1 : i64, type = tensor<f32>} : () -> tensor<f32>
    %1 = "msc.constant"() {part_of = [tensor<i64, #msc.layout<"[]">>], value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %2 = "msc.compare"(%micro, %1) {part_of = [tensor<i1, #msc.layout<"[]">>], predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %3 = "msc.add"(%train.sum8, %0) {part_of = [tensor<f32, #msc.layout<"[]">>]} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %4 = "msc.select"(%2, %0, %3) {part_of = [tensor<f32, #msc.layout<"[]">>]} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = "msc.constant"() {part_of = [tensor<bf16, #msc.layout<"[]">>], value = dense<0.0e+00> : tensor<bf16>} : () -> tensor<bf16>
    %6 = "msc.compare"(%train.2, %5) {part_of = [tensor<4x4xi1, #msc.layout<"[{},{}]">>], predicate = "gt"} : (tensor<4x4xbf16>, tensor<bf16>) -> tensor<4x4xi1>
    %7 = "msc.stage_recv"() {message = 2 : i64, part_of = [tensor<4x4xbf16, #msc.layout<"[{},{}]">>], stage = 1 : i64, type = tensor<4x4xbf16>} : () -> tensor<4x4xbf16>
    %8 = "msc.select"(%6, %7, %5) {part_of = [tensor<4x4xbf16, #msc.layout<"[{},{}]">>]} : (tensor<4x4xi1>, tensor<4x4xbf16>, tensor<bf16>) -> tensor<4x4xbf16>
    %9 = "msc.matmul"(%train.3, %8) {blocks = 4 : i64, part_of = [tensor<6x4xbf16, #msc.layout<"[{},{}]">>], transpose_a = true} : (tensor<4x6xbf16>, tensor<4x4xbf16>) -> tensor<6x4xbf16>
    %10 = "msc.cast"(%9) {dtype = "f32", part_of = [tensor<6x4xf32, #msc.layout<"[{},{}]">>]} : (tensor<6x4xbf16>) -> tensor<6x4xf32> loc("v.grad")
    %11 = "msc.add"(%train.sum21, %10) {part_of = [tensor<6x4xf32, #msc.layout<"[{},{}]">>]} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("v.grad")
    %12 = "msc.select"(%2, %10, %11) {part_of = [tensor<6x4xf32, #msc.layout<"[{},{}]">>]} : (tensor<i1>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("v.grad")
    "msc.return"(%4, %12) : (tensor<f32>, tensor<6x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[]", msc.loss = true, msc.name = "train.sum8", msc.role = "sum", msc.shape = []},
                   {msc.layout = "[]", msc.name = "micro", msc.role = "micro", msc.shape = []},
                   {msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.2", msc.role = "carried", msc.shape = [4, 4]},
                   {msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.3", msc.role = "carried", msc.shape = [4, 6]},
                   {msc.layout = "[{},{}]", msc.name = "train.sum21", msc.role = "sum", msc.shape = [6, 4]}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[]", "[{},{}]"],
      result_shapes = [[], [6, 4]],
      results = ["train.sum8", "train.sum21"],
      section = "B",
      stage = 0 : i64,
      sym_name = "train.0.B",
      ties = [0, 4]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.0: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<4x3xf32>, %train.1: tensor<4x4xbf16>, %train.sum15: tensor<4x3xf32>, %micro: tensor<i64>, %train.prepared0: tensor<4x3xbf16>):
    %0 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.softmax_cross_entropy_grad"(%train.0, %y, %0) {count = 4 : i64, part_of = [tensor<4x3xf32, #msc.layout<"[{},{}]">>]} : (tensor<4x3xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x3xf32>
    %2 = "msc.cast"(%1) {dtype = "bf16", part_of = [tensor<4x3xbf16, #msc.layout<"[{},{}]">>]} : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %3 = "msc.matmul"(%2, %train.prepared0) {blocks = 1 : i64, part_of = [tensor<4x4xbf16, #msc.layout<"[{},{}]">>], transpose_b = true} : (tensor<4x3xbf16>, tensor<4x3xbf16>) -> tensor<4x4xbf16>
    "msc.stage_send"(%3) {message = 2 : i64, stage = 0 : i64} : (tensor<4x4xbf16>) -> ()
    %4 = "msc.matmul"(%train.1, %2) {blocks = 4 : i64, part_of = [tensor<4x3xbf16, #msc.layout<"[{},{}]">>], transpose_a = true} : (tensor<4x4xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    %5 = "msc.cast"(%4) {dtype = "f32", part_of = [tensor<4x3xf32, #msc.layout<"[{},{}]">>]} : (tensor<4x3xbf16>) -> tensor<4x3xf32> loc("w.grad")
    %6 = "msc.constant"() {part_of = [tensor<i64, #msc.layout<"[]">>], value = dense<0> : tensor<i64>} : () -> tensor<i64> loc("w.grad")
    %7 = "msc.compare"(%micro, %6) {part_of = [tensor<i1, #msc.layout<"[]">>], predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1> loc("w.grad")
    %8 = "msc.add"(%train.sum15, %5) {part_of = [tensor<4x3xf32, #msc.layout<"[{},{}]">>]} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("w.grad")
    %9 = "msc.select"(%7, %5, %8) {part_of = [tensor<4x3xf32, #msc.layout<"[{},{}]">>]} : (tensor<i1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("w.grad")
    "msc.return"(%9) : (tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.0", msc.role = "carried", msc.shape = [4, 3]},
                   {msc.layout = "[{}]", msc.name = "y", msc.role = "label", msc.shape = [4]},
                   {msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [4, 3]},
                   {msc.class = "FB", msc.layout = "[{},{}]", msc.name = "train.1", msc.role = "carried", msc.shape = [4, 4]},
                   {msc.layout = "[{},{}]", msc.name = "train.sum15", msc.role = "sum", msc.shape = [4, 3]},
                   {msc.layout = "[]", msc.name = "micro", msc.role = "micro", msc.shape = []},
                   {msc.layout = "[{},{}]", msc.name = "train.prepared0", msc.role = "sum", msc.shape = [4, 3]}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[{},{}]"],
      result_shapes = [[4, 3]],
      results = ["train.sum15"],
      section = "B",
      stage = 1 : i64,
      sym_name = "train.1.B",
      ties = [4]} : () -> ()
  "msc.func"() ({
  ^bb0(%v: tensor<6x4xf32>, %train.sum21: tensor<6x4xf32>, %train.sum8: tensor<f32>):
    %0 = "msc.sgd"(%v, %train.sum21) {lr = 1.0e-01 : f32, part_of = [tensor<6x4xf32, #msc.layout<"[{},{}]">>]} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("v.update")
    %1 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.mul"(%train.sum8, %1) {part_of = [tensor<f32, #msc.layout<"[]">>]} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%2, %0) : (tensor<f32>, tensor<6x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "v", msc.role = "parameter", msc.shape = [6, 4]},
                   {msc.layout = "[{},{}]", msc.name = "train.sum21", msc.role = "sum", msc.shape = [6, 4]},
                   {msc.layout = "[]", msc.name = "train.sum8", msc.role = "sum", msc.shape = []}],
      loss = 0 : i64,
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[]", "[{},{}]"],
      result_shapes = [[], [6, 4]],
      results = ["loss", "v"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.0.U",
      ties = [-1, 0]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<4x3xf32>, %train.sum15: tensor<4x3xf32>):
    %0 = "msc.sgd"(%w, %train.sum15) {lr = 1.0e-01 : f32, part_of = [tensor<4x3xf32, #msc.layout<"[{},{}]">>]} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("w.update")
    "msc.return"(%0) : (tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [4, 3]},
                   {msc.layout = "[{},{}]", msc.name = "train.sum15", msc.role = "sum", msc.shape = [4, 3]}],
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[{},{}]"],
      result_shapes = [[4, 3]],
      results = ["w"],
      section = "U",
      stage = 1 : i64,
      sym_name = "train.1.U",
      ties = [0]} : () -> ()
  "msc.func"() ({
  ^bb0(%v: tensor<6x4xf32>, %train.prepared0: tensor<6x4xbf16>):
    %0 = "msc.cast"(%v) {dtype = "bf16", part_of = [tensor<6x4xbf16, #msc.layout<"[{},{}]">>]} : (tensor<6x4xf32>) -> tensor<6x4xbf16> loc("v")
    "msc.return"(%0) : (tensor<6x4xbf16>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "v", msc.role = "parameter", msc.shape = [6, 4]},
                   {msc.layout = "[{},{}]", msc.name = "train.prepared0", msc.role = "sum", msc.shape = [6, 4]}],
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[{},{}]"],
      result_shapes = [[6, 4]],
      results = ["train.prepared0"],
      section = "P",
      stage = 0 : i64,
      sym_name = "train.0.P",
      ties = [1]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<4x3xf32>, %train.prepared0: tensor<4x3xbf16>):
    %0 = "msc.cast"(%w) {dtype = "bf16", part_of = [tensor<4x3xbf16, #msc.layout<"[{},{}]">>]} : (tensor<4x3xf32>) -> tensor<4x3xbf16> loc("w")
    "msc.return"(%0) : (tensor<4x3xbf16>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [4, 3]},
                   {msc.layout = "[{},{}]", msc.name = "train.prepared0", msc.role = "sum", msc.shape = [4, 3]}],
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[{},{}]"],
      result_shapes = [[4, 3]],
      results = ["train.prepared0"],
      section = "P",
      stage = 1 : i64,
      sym_name = "train.1.P",
      ties = [1]} : () -> ()
}
