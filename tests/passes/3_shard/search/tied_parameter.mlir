// RUN: msc opt --set device_num=4 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --from=annotations --until=redistribute --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x5xi32>, %table: tensor<16x12xf32>, %y: tensor<8x5x16xf32>):
    %0 = "msc.gather"(%table, %x) : (tensor<16x12xf32>, tensor<8x5xi32>) -> tensor<8x5x12xf32> loc("embedding")
    %1 = "msc.tanh"(%0) : (tensor<8x5x12xf32>) -> tensor<8x5x12xf32> loc("inner")
    %2 = "msc.batch_matmul"(%1, %table) {transpose_b = true} : (tensor<8x5x12xf32>, tensor<16x12xf32>) -> tensor<8x5x16xf32> loc("head: both gradients of the table are added before ranks add up")
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x5x16xf32>, tensor<8x5x16xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "table", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = [{kind = "sgd", lr = 2.0e-01 : f32, parameters = ["table"]}],
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">, msc.outputs = [["loss", -1, true, "adds_up"]]} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x5xi32, #msc.layout<"[{d},{}]">>, %table: tensor<16x12xf32, #msc.layout<"[{},{}]">>, %y: tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>):
    %0 = "msc.gather"(%table, %x) {by = "default"} : (tensor<16x12xf32, #msc.layout<"[{},{}]">>, tensor<8x5xi32, #msc.layout<"[{d},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("embedding")
    %1 = "msc.tanh"(%0) {by = "default"} : (tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("inner")
    %2 = "msc.batch_matmul"(%1, %table) {by = "default", transpose_b = true} : (tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>, tensor<16x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">> loc("head: both gradients of the table are added before ranks add up")
    %3 = "msc.softmax_cross_entropy"(%2, %y) {by = "default"} : (tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>, tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %4 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.softmax_cross_entropy_grad"(%2, %y, %4) {forward = "loss", letters = "ABc"} : (tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>, tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">> loc("loss.grad")
    %6 = "msc.batch_matmul"(%5, %table) {forward = "head: both gradients of the table are added before ranks add up", letters = "Amnk"} : (tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>, tensor<16x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("head: both gradients of the table are added before ranks add up.grad")
    %7 = "msc.matmul_weight_grad"(%5, %1) {forward = "head: both gradients of the table are added before ranks add up", letters = "Amnk"} : (tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>, tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<16x12xf32, #msc.layout<"[{},{}] partial={d}">> loc("head: both gradients of the table are added before ranks add up.grad")
    %8 = "msc.mul"(%1, %1) {forward = "inner", letters = "ABC"} : (tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>, tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("inner.grad")
    %9 = "msc.sub"(%4, %8) {forward = "inner", letters = "ABC"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("inner.grad")
    %10 = "msc.mul"(%6, %9) {forward = "inner", letters = "ABC"} : (tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>, tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("inner.grad")
    %11 = "msc.scatter_add"(%x, %10) {forward = "embedding", letters = "ABdv", rows = 16 : i64} : (tensor<8x5xi32, #msc.layout<"[{d},{}]">>, tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<16x12xf32, #msc.layout<"[{},{}] partial={d}">> loc("embedding.grad")
    %12 = "msc.add"(%7, %11) {by = "copy"} : (tensor<16x12xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<16x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<16x12xf32, #msc.layout<"[{},{}] partial={d}">> loc("embedding.grad")
    %13 = "msc.all_reduce"(%12) : (tensor<16x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<16x12xf32, #msc.layout<"[{},{}]">> loc("table.update")
    %14 = "msc.sgd"(%table, %13) {lr = 2.0e-01 : f32} : (tensor<16x12xf32, #msc.layout<"[{},{}]">>, tensor<16x12xf32, #msc.layout<"[{},{}]">>) -> tensor<16x12xf32, #msc.layout<"[{},{}]">> loc("table.update")
    %15 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%15, %14) {in_layout = ["[]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<16x12xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "table", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      least_plan_ns = 192 : i64,
      least_step_ns = 0 : i64,
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "table"],
      searched = true,
      step_ns = 87886 : i64,
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x5xi32, #msc.layout<"[{d},{}]">>, %table: tensor<16x12xf32, #msc.layout<"[{},{}]">>, %y: tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>):
    %0 = "msc.gather"(%table, %x) {by = "default"} : (tensor<16x12xf32, #msc.layout<"[{},{}]">>, tensor<8x5xi32, #msc.layout<"[{d},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("embedding")
    %1 = "msc.tanh"(%0) {by = "default"} : (tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">> loc("inner")
    %2 = "msc.batch_matmul"(%1, %table) {by = "default", transpose_b = true} : (tensor<8x5x12xf32, #msc.layout<"[{d},{},{}]">>, tensor<16x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">> loc("head: both gradients of the table are added before ranks add up")
    %3 = "msc.softmax_cross_entropy"(%2, %y) {by = "default"} : (tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>, tensor<8x5x16xf32, #msc.layout<"[{d},{},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %4 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%4) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "table", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      least_plan_ns = 192 : i64,
      least_step_ns = 0 : i64,
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      searched = true,
      step_ns = 87886 : i64,
      sym_name = "forward"} : () -> ()
}
