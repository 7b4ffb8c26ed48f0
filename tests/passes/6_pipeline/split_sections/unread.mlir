// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,assign_stages,accumulate,redistribute,split_sections --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
// Nobody reads input z and parameter u: they are the first section's.  One micro-batch is the whole batch: its samples may be mixed.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %v: tensor<6x6xf32>, %z: tensor<8x2xf32>, %u: tensor<3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %v) {pipeline_stage = 0 : i64} : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.cumsum"(%0) {axis = 0 : i64, pipeline_stage = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) {pipeline_stage = 1 : i64} : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "z", msc.role = "data"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"stage=2,d=1">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{},{}]">>, %v: tensor<6x6xf32, #msc.layout<"[{},{}]">>, %z: tensor<8x2xf32, #msc.layout<"[{},{}]">>, %u: tensor<3xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %v) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%0) {message = 0 : i64, stage = 1 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"() : () -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "z", msc.role = "data"},
                   {msc.name = "u", msc.role = "parameter"}],
      chunk = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = [],
      section = "F",
      stage = 0 : i64,
      sym_name = "train.0.F",
      ties = []} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<8xi32, #msc.layout<"[{}]">>, %train.0: tensor<8x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<8x6xf32, #msc.layout<"[{},{}]">>} : () -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.cumsum"(%0) {axis = 0 : i64, by = "default"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.stage_send"(%2) {message = 1 : i64, stage = 0 : i64} : (tensor<f32, #msc.layout<"[]">>) -> ()
    "msc.return"(%1) : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "label"},
                   {msc.class = "FB", msc.name = "train.0", msc.role = "carried"}],
      chunk = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["train.0"],
      section = "F",
      stage = 1 : i64,
      sym_name = "train.1.F",
      ties = [1]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.sum3: tensor<f32, #msc.layout<"[]">>, %x: tensor<8x6xf32, #msc.layout<"[{},{}]">>, %train.sum8: tensor<6x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.stage_recv"() {message = 1 : i64, stage = 1 : i64, type = tensor<f32, #msc.layout<"[]">>} : () -> tensor<f32, #msc.layout<"[]">>
    %1 = "msc.stage_recv"() {message = 2 : i64, stage = 1 : i64, type = tensor<8x6xf32, #msc.layout<"[{},{}]">>} : () -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.matmul"(%x, %1) {transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<6x6xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%0, %2) : (tensor<f32, #msc.layout<"[]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.loss = true, msc.name = "train.sum3", msc.role = "sum"},
                   {msc.name = "x", msc.role = "data"},
                   {msc.name = "train.sum8", msc.role = "sum"}],
      chunk = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["train.sum3", "train.sum8"],
      section = "B",
      stage = 0 : i64,
      sym_name = "train.0.B",
      ties = [0, 2]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.0: tensor<8x6xf32, #msc.layout<"[{},{}]">>, %y: tensor<8xi32, #msc.layout<"[{}]">>):
    %0 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %1 = "msc.softmax_cross_entropy_grad"(%train.0, %y, %0) : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.cumsum"(%1) {axis = 0 : i64, exclusive = false, reverse = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    "msc.stage_send"(%2) {message = 2 : i64, stage = 0 : i64} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> ()
    "msc.return"() : () -> ()
  }) {arg_attrs = [{msc.class = "FB", msc.name = "train.0", msc.role = "carried"},
                   {msc.name = "y", msc.role = "label"}],
      chunk = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = [],
      section = "B",
      stage = 1 : i64,
      sym_name = "train.1.B",
      ties = []} : () -> ()
  "msc.func"() ({
  ^bb0(%v: tensor<6x6xf32, #msc.layout<"[{},{}]">>, %train.sum8: tensor<6x6xf32, #msc.layout<"[{},{}]">>, %train.sum3: tensor<f32, #msc.layout<"[]">>):
    %0 = "msc.sgd"(%v, %train.sum8) {lr = 1.0e-01 : f32} : (tensor<6x6xf32, #msc.layout<"[{},{}]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> tensor<6x6xf32, #msc.layout<"[{},{}]">> loc("v.update")
    "msc.return"(%train.sum3, %0) : (tensor<f32, #msc.layout<"[]">>, tensor<6x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "v", msc.role = "parameter"},
                   {msc.name = "train.sum8", msc.role = "sum"},
                   {msc.name = "train.sum3", msc.role = "sum"}],
      loss = 0 : i64,
      micro = 1 : i64,
      program = "train",
      results = ["loss", "v"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.0.U",
      ties = [-1, 0]} : () -> ()
}
