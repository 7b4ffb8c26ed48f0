// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,strategies,layouts,evaluate,accumulate,expand,redistribute,split_sections --set micro_size=2 --set device_num=2 --set parallel_mode=semi_auto_parallel %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 1 : i64} : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x3xf32>) -> tensor<f32>
    %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{d}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", ignore_index = 1 : i64, reduction = "sum"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %2 = "msc.constant"() {by = "default", value = dense<1> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %3 = "msc.compare"(%y, %2) {by = "default", predicate = "ne"} : (tensor<4xi32, #msc.layout<"[{d}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<4xi1, #msc.layout<"[{d}]">>
    %4 = "msc.cast"(%3) {by = "default", dtype = "f32"} : (tensor<4xi1, #msc.layout<"[{d}]">>) -> tensor<4xf32, #msc.layout<"[{d}]">>
    %5 = "msc.reduce_sum"(%4) {by = "default", dims = [0]} : (tensor<4xf32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %6 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.mul"(%1, %6) {by = "default"} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %8 = "msc.all_reduce"(%7) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %9 = "msc.all_reduce"(%5) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %10 = "msc.div"(%8, %9) {by = "default"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %11 = "msc.reduce_mean"(%0) {by = "default", dims = [0, 1]} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %12 = "msc.all_reduce"(%11) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %13 = "msc.add"(%10, %12) {by = "default"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%13) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %y: tensor<4xi32, #msc.layout<"[{d}]">>, %train.sum7: tensor<f32, #msc.layout<"[]">>, %train.sum15: tensor<f32, #msc.layout<"[]">>, %micro: tensor<i64, #msc.layout<"[]">>, %train.sum23: tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", ignore_index = 1 : i64, reduction = "sum"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %2 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.mul"(%1, %2) {by = "default"} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %4 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.div"(%4, %train.sum7) {by = "default"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.reduce_mean"(%0) {by = "default", dims = [0, 1]} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %7 = "msc.all_reduce"(%6) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %8 = "msc.add"(%5, %7) {by = "default"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %9 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64, #msc.layout<"[]">>
    %10 = "msc.compare"(%micro, %9) {predicate = "eq"} : (tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">>
    %11 = "msc.add"(%train.sum15, %8) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %12 = "msc.select"(%10, %8, %11) : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %13 = "msc.constant"() {by = "default", value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %14 = "msc.div"(%13, %train.sum7) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %15 = "msc.mul"(%14, %2) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %16 = "msc.softmax_cross_entropy_grad"(%0, %y, %15) {ignore_index = 1 : i64, reduction = "sum"} : (tensor<4x3xf32, #msc.layout<"[{d},{}]">>, tensor<4xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %17 = "msc.constant"() {by = "default", value = dense<4.1666668e-02> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %18 = "msc.add"(%17, %16) : (tensor<f32, #msc.layout<"[]">>, tensor<4x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x3xf32, #msc.layout<"[{d},{}]">>
    %19 = "msc.matmul"(%x, %18) {transpose_a = true} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x3xf32, #msc.layout<"[{d},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    %20 = "msc.add"(%train.sum23, %19) : (tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    %21 = "msc.select"(%10, %19, %20) : (tensor<i1, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>
    "msc.return"(%12, %21) : (tensor<f32, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "train.sum7", msc.role = "sum"},
                   {msc.loss = true, msc.name = "train.sum15", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"},
                   {msc.name = "train.sum23", msc.role = "sum"}],
      chunk = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["train.sum15", "train.sum23"],
      section = "FB",
      stage = 0 : i64,
      sym_name = "train.FB",
      ties = [4, 6]} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xi32, #msc.layout<"[{d}]">>, %train.sum7: tensor<f32, #msc.layout<"[]">>, %micro: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.constant"() {by = "default", value = dense<1> : tensor<i32>} : () -> tensor<i32, #msc.layout<"[]">>
    %1 = "msc.compare"(%y, %0) {by = "default", predicate = "ne"} : (tensor<4xi32, #msc.layout<"[{d}]">>, tensor<i32, #msc.layout<"[]">>) -> tensor<4xi1, #msc.layout<"[{d}]">>
    %2 = "msc.cast"(%1) {by = "default", dtype = "f32"} : (tensor<4xi1, #msc.layout<"[{d}]">>) -> tensor<4xf32, #msc.layout<"[{d}]">>
    %3 = "msc.reduce_sum"(%2) {by = "default", dims = [0]} : (tensor<4xf32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %4 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64, #msc.layout<"[]">>
    %6 = "msc.compare"(%micro, %5) {predicate = "eq"} : (tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">>
    %7 = "msc.add"(%train.sum7, %4) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %8 = "msc.select"(%6, %4, %7) : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%8) : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "label"},
                   {msc.name = "train.sum7", msc.role = "sum"},
                   {msc.name = "micro", msc.role = "micro"}],
      micro = 2 : i64,
      program = "train",
      results = ["train.sum7"],
      section = "D",
      stage = 0 : i64,
      sym_name = "train.D",
      ties = [1]} : () -> ()
  "msc.func"() ({
  ^bb0(%train.sum23: tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>, %w: tensor<6x3xf32, #msc.layout<"[{},{}]">>, %train.sum15: tensor<f32, #msc.layout<"[]">>):
    %0 = "msc.all_reduce"(%train.sum23) : (tensor<6x3xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %1 = "msc.sgd"(%w, %0) {lr = 1.0e-01 : f32} : (tensor<6x3xf32, #msc.layout<"[{},{}]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> tensor<6x3xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %2 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.mul"(%train.sum15, %2) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%3, %1) : (tensor<f32, #msc.layout<"[]">>, tensor<6x3xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "train.sum23", msc.role = "sum"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "train.sum15", msc.role = "sum"}],
      loss = 0 : i64,
      micro = 2 : i64,
      program = "train",
      results = ["loss", "w"],
      section = "U",
      stage = 0 : i64,
      sym_name = "train.U",
      ties = [-1, 1]} : () -> ()
}
