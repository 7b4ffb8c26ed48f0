// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,assign_stages,accumulate,redistribute,split_sections --set micro_size=2 --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
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
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %v: tensor<6x4xf32, #msc.layout<"[{},{}]">>, %train.2: tensor<4x4xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %v) {by = "default"} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.relu"(%0) {by = "default"} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%1) {message = 0 : i64, stage = 1 : i64} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"(%1) : (tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.class = "FB", msc.name = "train.2", msc.role = "carried"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["train.2"],
      section = "F",
      stage = 0 : i64,
      sym_name = "train.0.F",
      ties = [2]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<4x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>, %train.0: tensor<4x3xf32, #msc.layout<"[{},{}]">>, %train.1: tensor<4x4xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4x4xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.matmul"(%0, %w) {by = "default"} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default"} : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.stage_send"(%2) {message = 1 : i64, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> ()
    "msc.return"(%1, %0) : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.class = "FB", msc.name = "train.0", msc.role = "carried"},
                   {msc.class = "FB", msc.name = "train.1", msc.role = "carried"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["train.0", "train.1"],
      section = "F",
      stage = 1 : i64,
      sym_name = "train.1.F",
      ties = [2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.sum4: tensor<f32, #msc.layout<"[]">>, %micro: tensor<i64, #msc.layout<"[]">>, %train.2: tensor<4x4xf32, #msc.layout<"[{},{}]">>, %x: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %train.sum14: tensor<6x4xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 1 : i64, stage = 1 : i64, type = tensor<f32, #msc.layout<"[]">>} : () -> tensor<f32, #msc.layout<"[]">>
    %1 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64, #msc.layout<"[]">>
    %2 = "msc.compare"(%micro, %1) {predicate = "eq"} : (tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">>
    %3 = "msc.add"(%train.sum4, %0) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.select"(%2, %0, %3) : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.constant"() {by = "default", value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.compare"(%train.2, %5) {predicate = "gt"} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x4xi1, #msc.layout<"[{},{}]">>
    %7 = "msc.stage_recv"() {message = 2 : i64, stage = 1 : i64, type = tensor<4x4xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %8 = "msc.select"(%6, %7, %5) : (tensor<4x4xi1, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    %9 = "msc.matmul"(%x, %8) {transpose_a = true} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">>
    %10 = "msc.add"(%train.sum14, %9) : (tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">>
    %11 = "msc.select"(%2, %9, %10) : (tensor<i1, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%4, %11) : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.loss = true, msc.name = "train.sum4", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.class = "FB", msc.name = "train.2", msc.role = "carried"},
                   {msc.name = "x", msc.role = "data"},
                   {msc.name = "train.sum14", msc.role = "sum"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["train.sum4", "train.sum14"],
      section = "B",
      stage = 0 : i64,
      sym_name = "train.0.B",
      ties = [0, 4]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.0: tensor<4x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{}]">>, %w: tensor<4x3xf32, #msc.layout<"[{},{}]">>, %train.1: tensor<4x4xf32, #msc.layout<"[{},{}]">>, %train.sum9: tensor<4x3xf32, #msc.layout<"[{},{}]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %1 = "msc.softmax_cross_entropy_grad"(%train.0, %y, %0) : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.matmul"(%1, %w) {transpose_b = true} : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%2) {message = 2 : i64, stage = 0 : i64} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> ()
    %3 = "msc.matmul"(%train.1, %1) {transpose_a = true} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    %4 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64, #msc.layout<"[]">>
    %5 = "msc.compare"(%micro, %4) {predicate = "eq"} : (tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">>
    %6 = "msc.add"(%train.sum9, %3) : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    %7 = "msc.select"(%5, %3, %6) : (tensor<i1, #msc.layout<"[]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%7) : (tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.class = "FB", msc.name = "train.0", msc.role = "carried"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.class = "FB", msc.name = "train.1", msc.role = "carried"},
                   {msc.name = "train.sum9", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["train.sum9"],
      section = "B",
      stage = 1 : i64,
      sym_name = "train.1.B",
      ties = [4]} : () -> ()
  "msc.func"() ({
  ^bb0(%v: tensor<6x4xf32, #msc.layout<"[{},{}]">>, %train.sum14: tensor<6x4xf32, #msc.layout<"[{},{}]">>, %train.sum4: tensor<f32, #msc.layout<"[]">>):
    %0 = "msc.sgd"(%v, %train.sum14) {lr = 1.0e-01 : f32} : (tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">> loc("v.update")
    %1 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %2 = "msc.mul"(%train.sum4, %1) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%2, %0) : (tensor<f32, #msc.layout<"[]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "v", msc.role = "parameter"},
                   {msc.name = "train.sum14", msc.role = "sum"},
                   {msc.name = "train.sum4", msc.role = "sum"}],
      loss = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["loss", "v"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.0.U",
      ties = [-1, 0]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<4x3xf32, #msc.layout<"[{},{}]">>, %train.sum9: tensor<4x3xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.sgd"(%w, %train.sum9) {lr = 1.0e-01 : f32} : (tensor<4x3xf32, #msc.layout<"[{},{}]">>, tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{},{}]">> loc("w.update")
    "msc.return"(%0) : (tensor<4x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "train.sum9", msc.role = "sum"}],
      micro = 2 : i64,
      program = "train",
      results = ["w"],
      section = "U",
      stage = 1 : i64,
      sym_name = "train.1.U",
      ties = [0]} : () -> ()
}
