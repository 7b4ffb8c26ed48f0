// RUN: msc opt --passes=autodiff,optimizer,tidy,strategies,layouts,expand,redistribute,recompute --set device_num=2 --set parallel_mode=semi_auto_parallel --set dataset_strategy=full_batch %s
// mp_comm_recompute = false: the result of the sum over ranks is kept, so the product that it finishes is not repeated; %0 still is.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x12xf32>, %w2: tensor<12x6xf32>, %w3: tensor<6x2xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w1) {in_strategy = [[1, 1], [1, 2]], mp_comm_recompute = false, recompute = "layer"} : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
    %1 = "msc.matmul"(%0, %w2) {in_strategy = [[1, 2], [2, 1]], mp_comm_recompute = false, recompute = "layer"} : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.silu"(%1) {in_strategy = [[1, 1]], mp_comm_recompute = false, recompute = "layer"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.matmul"(%2, %w3) {in_strategy = [[1, 1], [1, 2]]} : (tensor<8x6xf32>, tensor<6x2xf32>) -> tensor<8x2xf32>
    %4 = "msc.softmax_cross_entropy"(%3, %y) {in_strategy = [[1, 1], [1]]} : (tensor<8x2xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{},{}]">>, %w1: tensor<6x12xf32, #msc.layout<"[{},{d}]">>, %w2: tensor<12x6xf32, #msc.layout<"[{d},{}]">>, %w3: tensor<6x2xf32, #msc.layout<"[{},{d}]">>, %y: tensor<8xi32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %w1) {by = "user"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<6x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{d}]">>
    %1 = "msc.matmul"(%0, %w2) {by = "user"} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>, tensor<12x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}] partial={d}">>
    %2 = "msc.all_reduce"(%1) : (tensor<8x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %3 = "msc.silu"(%2) {by = "user"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %4 = "msc.matmul"(%3, %w3) {by = "user"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<6x2xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x2xf32, #msc.layout<"[{},{d}]">>
    %5 = "msc.all_gather"(%4) : (tensor<8x2xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x2xf32, #msc.layout<"[{},{}]">>
    %6 = "msc.softmax_cross_entropy"(%5, %y) {by = "user"} : (tensor<8x2xf32, #msc.layout<"[{},{}]">>, tensor<8xi32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">>
    %7 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %8 = "msc.softmax_cross_entropy_grad"(%5, %y, %7) {forward = "%6", letters = "Ac"} : (tensor<8x2xf32, #msc.layout<"[{},{}]">>, tensor<8xi32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x2xf32, #msc.layout<"[{},{}]">>
    %9 = "msc.shard"(%8) : (tensor<8x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8x2xf32, #msc.layout<"[{},{d}]">>
    %10 = "msc.matmul"(%9, %w3) {forward = "%4", letters = "mnk", transpose_b = true} : (tensor<8x2xf32, #msc.layout<"[{},{d}]">>, tensor<6x2xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}] partial={d}">>
    %11 = "msc.matmul"(%3, %9) {forward = "%4", letters = "mkn", transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x2xf32, #msc.layout<"[{},{d}]">>) -> tensor<6x2xf32, #msc.layout<"[{},{d}]">>
    %12 = "msc.sigmoid"(%2) {forward = "%3", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %13 = "msc.sub"(%7, %12) {forward = "%3", letters = "AB"} : (tensor<f32, #msc.layout<"[]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %14 = "msc.mul"(%2, %13) {forward = "%3", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %15 = "msc.add"(%14, %7) {forward = "%3", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %16 = "msc.mul"(%12, %15) {forward = "%3", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %17 = "msc.mul"(%10, %16) {forward = "%3", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{},{}] partial={d}">>
    %18 = "msc.all_reduce"(%17) : (tensor<8x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<8x6xf32, #msc.layout<"[{},{}]">>
    %19 = "msc.matmul"(%18, %w2) {forward = "%1", letters = "mnk", transpose_b = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<12x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{d}]">>
    %20 = "msc.matmul"(%x, %w1) {by = "user", recompute = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<6x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{d}]">>
    %21 = "msc.matmul"(%20, %18) {forward = "%1", letters = "mkn", transpose_a = true} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>, tensor<8x6xf32, #msc.layout<"[{},{}]">>) -> tensor<12x6xf32, #msc.layout<"[{d},{}]">>
    %22 = "msc.matmul"(%x, %19) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{},{}]">>, tensor<8x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<6x12xf32, #msc.layout<"[{},{d}]">>
    %23 = "msc.sgd"(%w1, %22) {lr = 1.0e-01 : f32} : (tensor<6x12xf32, #msc.layout<"[{},{d}]">>, tensor<6x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<6x12xf32, #msc.layout<"[{},{d}]">> loc("w1.update")
    %24 = "msc.sgd"(%w2, %21) {lr = 1.0e-01 : f32} : (tensor<12x6xf32, #msc.layout<"[{d},{}]">>, tensor<12x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<12x6xf32, #msc.layout<"[{d},{}]">> loc("w2.update")
    %25 = "msc.sgd"(%w3, %11) {lr = 1.0e-01 : f32} : (tensor<6x2xf32, #msc.layout<"[{},{d}]">>, tensor<6x2xf32, #msc.layout<"[{},{d}]">>) -> tensor<6x2xf32, #msc.layout<"[{},{d}]">> loc("w3.update")
    "msc.return"(%6, %23, %24, %25) {in_layout = ["[]", "[{},{d}]", "[{d},{}]", "[{},{d}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<6x12xf32, #msc.layout<"[{},{d}]">>, tensor<12x6xf32, #msc.layout<"[{d},{}]">>, tensor<6x2xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "x", msc.role = "data", msc.whole = true},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter"},
                   {msc.layout = "[{}]", msc.name = "y", msc.role = "label", msc.whole = true}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w1", "w2", "w3"],
      sym_name = "train",
      ties = [-1, 1, 2, 3]} : () -> ()
}
