// RUN: msc opt --passes=micro,precision,autodiff,optimizer,tidy,evaluate,accumulate,split_sections,localize,prepare --set micro_size=2 --set compute_type=bf16 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>, %v: tensor<4x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.relu"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %v) : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>, %v: tensor<4x3xf32>, %y: tensor<4xi32>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x4xf32>) -> tensor<6x4xbf16> loc("w")
    %2 = "msc.matmul"(%0, %1) {blocks = 2 : i64} : (tensor<4x6xbf16>, tensor<6x4xbf16>) -> tensor<4x4xbf16>
    %3 = "msc.relu"(%2) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %4 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<4x3xf32>) -> tensor<4x3xbf16> loc("v")
    %5 = "msc.matmul"(%3, %4) {blocks = 4 : i64} : (tensor<4x4xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<4x3xbf16>) -> tensor<4x3xf32>
    %7 = "msc.softmax_cross_entropy"(%6, %y) {blocks = 4 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.return"(%7) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      result_layouts = ["[]"],
      result_shapes = [[]],
      results = ["loss"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>, %v: tensor<4x3xf32>, %y: tensor<4xi32>, %train.sum8: tensor<f32>, %micro: tensor<i64>, %train.sum15: tensor<4x3xf32>, %train.sum21: tensor<6x4xf32>, %train.prepared0: tensor<6x4xbf16>, %train.prepared1: tensor<4x3xbf16>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %1 = "msc.matmul"(%0, %train.prepared0) {blocks = 2 : i64} : (tensor<4x6xbf16>, tensor<6x4xbf16>) -> tensor<4x4xbf16>
    %2 = "msc.relu"(%1) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %3 = "msc.matmul"(%2, %train.prepared1) {blocks = 4 : i64} : (tensor<4x4xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<4x3xbf16>) -> tensor<4x3xf32>
    %5 = "msc.softmax_cross_entropy"(%4, %y) {blocks = 4 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %6 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %7 = "msc.compare"(%micro, %6) {predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %8 = "msc.add"(%train.sum8, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.select"(%7, %5, %8) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.softmax_cross_entropy_grad"(%4, %y, %10) : (tensor<4x3xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x3xf32>
    %12 = "msc.cast"(%11) {dtype = "bf16"} : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %13 = "msc.matmul"(%12, %train.prepared1) {blocks = 1 : i64, transpose_b = true} : (tensor<4x3xbf16>, tensor<4x3xbf16>) -> tensor<4x4xbf16>
    %14 = "msc.matmul"(%2, %12) {blocks = 4 : i64, transpose_a = true} : (tensor<4x4xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    %15 = "msc.cast"(%14) {dtype = "f32"} : (tensor<4x3xbf16>) -> tensor<4x3xf32> loc("v.grad")
    %16 = "msc.add"(%train.sum15, %15) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("v.grad")
    %17 = "msc.select"(%7, %15, %16) : (tensor<i1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("v.grad")
    %18 = "msc.constant"() {value = dense<0.0e+00> : tensor<bf16>} : () -> tensor<bf16>
    %19 = "msc.compare"(%2, %18) {predicate = "gt"} : (tensor<4x4xbf16>, tensor<bf16>) -> tensor<4x4xi1>
    %20 = "msc.select"(%19, %13, %18) : (tensor<4x4xi1>, tensor<4x4xbf16>, tensor<bf16>) -> tensor<4x4xbf16>
    %21 = "msc.matmul"(%0, %20) {blocks = 4 : i64, transpose_a = true} : (tensor<4x6xbf16>, tensor<4x4xbf16>) -> tensor<6x4xbf16>
    %22 = "msc.cast"(%21) {dtype = "f32"} : (tensor<6x4xbf16>) -> tensor<6x4xf32> loc("w.grad")
    %23 = "msc.add"(%train.sum21, %22) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("w.grad")
    %24 = "msc.select"(%7, %22, %23) : (tensor<i1>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("w.grad")
    "msc.return"(%9, %17, %24) : (tensor<f32>, tensor<4x3xf32>, tensor<6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.loss = true, msc.name = "train.sum8", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.name = "train.sum15", msc.role = "sum"},
                   {msc.name = "train.sum21", msc.role = "sum"},
                   {msc.name = "train.prepared0", msc.role = "sum"},
                   {msc.name = "train.prepared1", msc.role = "sum"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [4, 3], [6, 4]],
      results = ["train.sum8", "train.sum15", "train.sum21"],
      section = "FB",
      stage = 0 : i64,
      sym_name = "train.FB",
      ties = [4, 6, 7]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<6x4xf32>, %train.sum21: tensor<6x4xf32>, %v: tensor<4x3xf32>, %train.sum15: tensor<4x3xf32>, %train.sum8: tensor<f32>):
    %0 = "msc.sgd"(%w, %train.sum21) {lr = 1.0e-01 : f32} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("w.update")
    %1 = "msc.sgd"(%v, %train.sum15) {lr = 1.0e-01 : f32} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("v.update")
    %2 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.mul"(%train.sum8, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%3, %0, %1) : (tensor<f32>, tensor<6x4xf32>, tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "train.sum21", msc.role = "sum"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "train.sum15", msc.role = "sum"},
                   {msc.name = "train.sum8", msc.role = "sum"}],
      loss = 0 : i64,
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [6, 4], [4, 3]],
      results = ["loss", "w", "v"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.U",
      ties = [-1, 0, 2]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<6x4xf32>, %v: tensor<4x3xf32>, %train.prepared0: tensor<6x4xbf16>, %train.prepared1: tensor<4x3xbf16>):
    %0 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x4xf32>) -> tensor<6x4xbf16> loc("w")
    %1 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<4x3xf32>) -> tensor<4x3xbf16> loc("v")
    "msc.return"(%0, %1) : (tensor<6x4xbf16>, tensor<4x3xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "train.prepared0", msc.role = "sum"},
                   {msc.name = "train.prepared1", msc.role = "sum"}],
      micro = 2 : i64,
      program = "train",
      result_layouts = ["[{},{}]", "[{},{}]"],
      result_shapes = [[6, 4], [4, 3]],
      results = ["train.prepared0", "train.prepared1"],
      section = "P",
      stage = 0 : i64,
      sym_name = "train.P",
      ties = [2, 3]} : () -> ()
}
