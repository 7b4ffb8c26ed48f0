// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,accumulate,redistribute,split_sections --set micro_size=2 %s
// The new value of u, which nobody reads, is made once per step, from w as the step begins with it: before the update.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %u: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %2 = "msc.tanh"(%w) : (tensor<3xf32>) -> tensor<3xf32>
    "msc.return"(%1, %2) : (tensor<f32>, tensor<3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "u"],
      sym_name = "forward",
      ties = [-1, 2]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%w: tensor<3xf32, #msc.layout<"[{}]">>, %train.sum7: tensor<3xf32, #msc.layout<"[{}]">>, %train.sum2: tensor<f32, #msc.layout<"[]">>, %u: tensor<3xf32, #msc.layout<"[{}]">>):
    %0 = "msc.tanh"(%w) : (tensor<3xf32, #msc.layout<"[{}]">>) -> tensor<3xf32, #msc.layout<"[{}]">>
    %1 = "msc.sgd"(%w, %train.sum7) {lr = 1.0e-01 : f32} : (tensor<3xf32, #msc.layout<"[{}]">>, tensor<3xf32, #msc.layout<"[{}]">>) -> tensor<3xf32, #msc.layout<"[{}]">> loc("w.update")
    %2 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.mul"(%train.sum2, %2) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%3, %0, %1) : (tensor<f32, #msc.layout<"[]">>, tensor<3xf32, #msc.layout<"[{}]">>, tensor<3xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "train.sum7", msc.role = "sum"},
                   {msc.name = "train.sum2", msc.role = "sum"},
                   {msc.name = "u", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["loss", "u", "w"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.U",
      ties = [-1, 3, 0]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<2x3xf32, #msc.layout<"[{},{}]">>, %w: tensor<3xf32, #msc.layout<"[{}]">>, %train.sum2: tensor<f32, #msc.layout<"[]">>, %micro: tensor<i64, #msc.layout<"[]">>, %train.sum7: tensor<3xf32, #msc.layout<"[{}]">>):
    %0 = "msc.mul"(%x, %w) {by = "default"} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<3xf32, #msc.layout<"[{}]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.reduce_mean"(%0) {by = "default", dims = [0, 1]} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %2 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64, #msc.layout<"[]">>
    %3 = "msc.compare"(%micro, %2) {predicate = "eq"} : (tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">>
    %4 = "msc.add"(%train.sum2, %1) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.select"(%3, %1, %4) : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.constant"() {by = "default", value = dense<8.3333336e-02> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.mul"(%6, %x) : (tensor<f32, #msc.layout<"[]">>, tensor<2x3xf32, #msc.layout<"[{},{}]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %8 = "msc.reduce_sum"(%7) {dims = [0]} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>) -> tensor<3xf32, #msc.layout<"[{}]">>
    %9 = "msc.add"(%train.sum7, %8) : (tensor<3xf32, #msc.layout<"[{}]">>, tensor<3xf32, #msc.layout<"[{}]">>) -> tensor<3xf32, #msc.layout<"[{}]">>
    %10 = "msc.select"(%3, %8, %9) : (tensor<i1, #msc.layout<"[]">>, tensor<3xf32, #msc.layout<"[{}]">>, tensor<3xf32, #msc.layout<"[{}]">>) -> tensor<3xf32, #msc.layout<"[{}]">>
    "msc.return"(%5, %10) : (tensor<f32, #msc.layout<"[]">>, tensor<3xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.loss = true, msc.name = "train.sum2", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.name = "train.sum7", msc.role = "sum"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["train.sum2", "train.sum7"],
      section = "FB",
      stage = 0 : i64,
      sym_name = "train.FB",
      ties = [2, 4]} : () -> ()
}
