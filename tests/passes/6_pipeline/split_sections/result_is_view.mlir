// RUN: msc opt --passes=outputs,micro,autodiff,optimizer,tidy,strategies,layouts,assign_stages,evaluate,accumulate,expand,redistribute,split_sections --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel --set pipeline_scheduler=interleaved --set pipeline_chunks=2 %s
// The result `out` is a view of what the third virtual stage makes, and comes from there: the first, on the same stage,
// runs before it.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x2xf32>, %y: tensor<4x2xf32>, %w: tensor<2x2xf32>):
    %0 = "msc.exp"(%x) {pipeline_stage = 0 : i64} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %1 = "msc.neg"(%0) {pipeline_stage = 1 : i64} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %2 = "msc.matmul"(%1, %w) {pipeline_stage = 2 : i64} : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %3 = "msc.reshape"(%2) {pipeline_stage = 3 : i64, shape = [8]} : (tensor<4x2xf32>) -> tensor<8xf32>
    %4 = "msc.reshape"(%y) {pipeline_stage = 3 : i64, shape = [8]} : (tensor<4x2xf32>) -> tensor<8xf32>
    %5 = "msc.mean_squared_error"(%3, %4) {pipeline_stage = 3 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
    "msc.return"(%5, %3) : (tensor<f32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss", "out"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"stage=2,d=1">, msc.outputs = [["loss", -1, true, "adds_up"], ["out", 0, false, ""]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.exp"(%x) {by = "default"} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%0) {message = 0 : i64, stage = 1 : i64} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"() : () -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      chunk = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = [],
      section = "F",
      stage = 0 : i64,
      sym_name = "train.0.0.F",
      ties = []} : () -> ()
  "msc.func"() ({
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4x2xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.neg"(%0) {by = "default"} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%1) {message = 1 : i64, stage = 0 : i64} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"() : () -> ()
  }) {chunk = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = [],
      section = "F",
      stage = 1 : i64,
      sym_name = "train.1.0.F",
      ties = []} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<2x2xf32, #msc.layout<"[{},{}]">>, %train.1: tensor<4x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 1 : i64, stage = 1 : i64, type = tensor<4x2xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.matmul"(%0, %w) {by = "default"} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>, tensor<2x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%1) {message = 2 : i64, stage = 1 : i64} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"(%0) : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.class = "FB", msc.name = "train.1", msc.role = "carried"}],
      chunk = 1 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["train.1"],
      section = "F",
      stage = 0 : i64,
      sym_name = "train.0.1.F",
      ties = [1]} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4x2xf32, #msc.layout<"[{},{}]">>, %train.0: tensor<4x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 2 : i64, stage = 0 : i64, type = tensor<4x2xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.reshape"(%0) {by = "default", shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %2 = "msc.reshape"(%y) {by = "default", shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %3 = "msc.sub"(%1, %2) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %4 = "msc.mul"(%3, %3) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %5 = "msc.reduce_mean"(%4) {dims = [0]} : (tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.stage_send"(%5) {message = 3 : i64, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> ()
    "msc.return"(%0) : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "label"},
                   {msc.class = "FB", msc.name = "train.0", msc.role = "carried"}],
      chunk = 1 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["train.0"],
      section = "F",
      stage = 1 : i64,
      sym_name = "train.1.1.F",
      ties = [1]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.sum8: tensor<f32, #msc.layout<"[]">>):
    %0 = "msc.stage_recv"() {message = 3 : i64, stage = 1 : i64, type = tensor<f32, #msc.layout<"[]">>} : () -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%0) : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.loss = true, msc.name = "train.sum8", msc.role = "sum"}],
      chunk = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["train.sum8"],
      section = "B",
      stage = 0 : i64,
      sym_name = "train.0.0.B",
      ties = [0]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.0: tensor<4x2xf32, #msc.layout<"[{},{}]">>, %y: tensor<4x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.reshape"(%train.0) {by = "default", shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %1 = "msc.reshape"(%y) {by = "default", shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %2 = "msc.sub"(%0, %1) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %3 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.constant"() {value = dense<8.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.div"(%3, %4) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.broadcast_to"(%5) {shape = [8]} : (tensor<f32, #msc.layout<"[]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %7 = "msc.mul"(%6, %2) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %8 = "msc.mul"(%6, %2) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %9 = "msc.add"(%7, %8) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    "msc.stage_send"(%9) {message = 4 : i64, stage = 0 : i64} : (tensor<8xf32, #msc.layout<"[{}]">>) -> ()
    "msc.return"() : () -> ()
  }) {arg_attrs = [{msc.class = "FB", msc.name = "train.0", msc.role = "carried"},
                   {msc.name = "y", msc.role = "label"}],
      chunk = 1 : i64,
      micro = 1 : i64,
      program = "train",
      results = [],
      section = "B",
      stage = 1 : i64,
      sym_name = "train.1.1.B",
      ties = []} : () -> ()
  "msc.func"() ({
  ^bb0(%train.1: tensor<4x2xf32, #msc.layout<"[{},{}]">>, %train.sum19: tensor<2x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 4 : i64, stage = 1 : i64, type = tensor<8xf32, #msc.layout<"[{}]">>} : () -> tensor<8xf32, #msc.layout<"[{}]">>
    %1 = "msc.reshape"(%0) {shape = [4, 2]} : (tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.matmul"(%train.1, %1) {transpose_a = true} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<2x2xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%2) : (tensor<2x2xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.class = "FB", msc.name = "train.1", msc.role = "carried"},
                   {msc.name = "train.sum19", msc.role = "sum"}],
      chunk = 1 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["train.sum19"],
      section = "B",
      stage = 0 : i64,
      sym_name = "train.0.1.B",
      ties = [1]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<2x2xf32, #msc.layout<"[{},{}]">>, %train.sum19: tensor<2x2xf32, #msc.layout<"[{},{}]">>, %train.sum8: tensor<f32, #msc.layout<"[]">>):
    %0 = "msc.sgd"(%w, %train.sum19) {lr = 1.0e-01 : f64} : (tensor<2x2xf32, #msc.layout<"[{},{}]">>, tensor<2x2xf32, #msc.layout<"[{},{}]">>) -> tensor<2x2xf32, #msc.layout<"[{},{}]">> loc("w.update")
    "msc.return"(%train.sum8, %0) : (tensor<f32, #msc.layout<"[]">>, tensor<2x2xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "train.sum19", msc.role = "sum"},
                   {msc.name = "train.sum8", msc.role = "sum"}],
      loss = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["loss", "w"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.0.U",
      ties = [-1, 0]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.exp"(%x) {by = "default"} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%0) {message = 5 : i64, stage = 1 : i64} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"() : () -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      chunk = 0 : i64,
      micro = 1 : i64,
      program = "forward",
      results = [],
      section = "F",
      stage = 0 : i64,
      sym_name = "forward.0.0.F",
      ties = []} : () -> ()
  "msc.func"() ({
    %0 = "msc.stage_recv"() {message = 5 : i64, stage = 0 : i64, type = tensor<4x2xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.neg"(%0) {by = "default"} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%1) {message = 6 : i64, stage = 0 : i64} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"() : () -> ()
  }) {chunk = 0 : i64,
      micro = 1 : i64,
      program = "forward",
      results = [],
      section = "F",
      stage = 1 : i64,
      sym_name = "forward.1.0.F",
      ties = []} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<2x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 6 : i64, stage = 1 : i64, type = tensor<4x2xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.matmul"(%0, %w) {by = "default"} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>, tensor<2x2xf32, #msc.layout<"[{},{}]">>) -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%1) {message = 7 : i64, stage = 1 : i64} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> ()
    %2 = "msc.stage_recv"() {message = 8 : i64, stage = 1 : i64, type = tensor<f32, #msc.layout<"[]">>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.reshape"(%1) {by = "default", shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    "msc.return"(%2, %3) : (tensor<f32, #msc.layout<"[]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"}],
      chunk = 1 : i64,
      loss = 0 : i64,
      micro = 1 : i64,
      program = "forward",
      results = ["loss", "out"],
      section = "F",
      stage = 0 : i64,
      sym_name = "forward.0.1.F",
      ties = [-1, -1]} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4x2xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 7 : i64, stage = 0 : i64, type = tensor<4x2xf32, #msc.layout<"[{},{}]">>} : () -> tensor<4x2xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.reshape"(%0) {by = "default", shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %2 = "msc.reshape"(%y) {by = "default", shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %3 = "msc.sub"(%1, %2) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %4 = "msc.mul"(%3, %3) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %5 = "msc.reduce_mean"(%4) {dims = [0]} : (tensor<8xf32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.stage_send"(%5) {message = 8 : i64, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> ()
    "msc.return"() : () -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "label"}],
      chunk = 1 : i64,
      micro = 1 : i64,
      program = "forward",
      results = [],
      section = "F",
      stage = 1 : i64,
      sym_name = "forward.1.1.F",
      ties = []} : () -> ()
}
