// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,evaluate,accumulate,redistribute,split_sections,copies --set micro_size=2 --set micro_batch_interleaved=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32, #msc.layout<"[{},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<2xi32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<2x6xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default"} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%1) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      micro = 4 : i64,
      micro_mean = true,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32, #msc.layout<"[{},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<2xi32, #msc.layout<"[{}]">>, %train.sum2: tensor<f32, #msc.layout<"[]">>, %micro: tensor<i64, #msc.layout<"[]">>, %train.sum6: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %0: tensor<2x6xf32, #msc.layout<"[{},{}]">>, %1: tensor<2xi32, #msc.layout<"[{}]">>):
    %2 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<2x6xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %3 = "msc.softmax_cross_entropy"(%2, %y) {by = "default"} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64, #msc.layout<"[]">>
    %5 = "msc.compare"(%micro, %4) {predicate = "eq"} : (tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">>
    %6 = "msc.add"(%train.sum2, %3) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.select"(%5, %3, %6) : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %8 = "msc.constant"() {by = "default", value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %9 = "msc.softmax_cross_entropy_grad"(%2, %y, %8) : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %10 = "msc.matmul"(%x, %9) {transpose_a = true} : (tensor<2x6xf32, #msc.layout<"[{},{}]">>, tensor<2x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">>
    %11 = "msc.add"(%train.sum6, %10) : (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">>
    %12 = "msc.select"(%5, %10, %11) : (tensor<i1, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">>
    %13 = "msc.matmul"(%0, %w) {by = "default"} : (tensor<2x6xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %14 = "msc.softmax_cross_entropy"(%13, %1) {by = "default"} : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %15 = "msc.add"(%7, %14) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %16 = "msc.softmax_cross_entropy_grad"(%13, %1, %8) : (tensor<2x3xf32, #msc.layout<"[{},{}]">>, tensor<2xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<2x3xf32, #msc.layout<"[{},{}]">>
    %17 = "msc.matmul"(%0, %16) {transpose_a = true} : (tensor<2x6xf32, #msc.layout<"[{},{}]">>, tensor<2x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">>
    %18 = "msc.add"(%12, %17) : (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%15, %18) : (tensor<f32, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.loss = true, msc.name = "train.sum2", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.name = "train.sum6", msc.role = "sum"},
                   {msc.copy = 1 : i64, msc.name = "x", msc.role = "data"},
                   {msc.copy = 1 : i64, msc.name = "y", msc.role = "label"}],
      chunk = 0 : i64,
      copies = 2 : i64,
      micro = 4 : i64,
      program = "train",
      results = ["train.sum2", "train.sum6"],
      section = "FB",
      stage = 0 : i64,
      sym_name = "train.FB",
      ties = [3, 5]} : () -> ()
  "msc.func"() ({
  ^bb0(%w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %train.sum6: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %train.sum2: tensor<f32, #msc.layout<"[]">>):
    %0 = "msc.sgd"(%w, %train.sum6) {lr = 1.0e-01 : f32} : (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %1 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %2 = "msc.mul"(%train.sum2, %1) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%2, %0) : (tensor<f32, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "w", msc.role = "parameter"},
                   {msc.name = "train.sum6", msc.role = "sum"},
                   {msc.name = "train.sum2", msc.role = "sum"}],
      loss = 0 : i64,
      micro = 4 : i64,
      program = "train",
      results = ["loss", "w"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.U",
      ties = [-1, 0]} : () -> ()
}
