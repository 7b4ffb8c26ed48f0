// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --set 'mesh={"dp":4,"tp":2}' --set zero=1 --set 'parallel_optimizer_config={"parallel_optimizer_threshold":0}' --check-numerics --from=zero --until=redistribute %s
module attributes {msc.mesh = #msc.mesh<"dp=4,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %y: tensor<8xi32, #msc.layout<"[{dp,tp}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, %b.m: tensor<6xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_layout = ["[{dp},{}]", "[{},{tp}]"]} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">> loc("dense")
    %1 = "msc.add"(%0, %b) {by = "default", in_layout = ["[{dp,tp},{}]", "[{}]"]} : (tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("bias_add")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default", in_layout = ["[{dp,tp},{}]", "[{dp,tp}]"]} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<8xi32, #msc.layout<"[{dp,tp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %3 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "loss", in_layout = ["[{dp,tp},{}]", "[{dp,tp}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<8xi32, #msc.layout<"[{dp,tp}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("loss.grad")
    %5 = "msc.reduce_sum"(%4) {dims = [0], forward = "bias_add", in_layout = ["[{dp,tp},{}]"], letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={dp,tp}">> loc("bias_add.grad")
    %6 = "msc.matmul"(%x, %4) {forward = "dense", in_layout = ["[{dp},{}]", "[{dp},{tp}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("dense.grad")
    %7:2 = "msc.momentum"(%w, %w.m, %6) {in_layout = ["[{},{tp}]", "[{},{tp}]", "[{},{tp}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> (tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>) loc("w.update")
    %8:2 = "msc.momentum"(%b, %b.m, %5) {in_layout = ["[{}]", "[{}]", "[{}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}] partial={dp,tp}">>) -> (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) loc("b.update")
    "msc.return"(%2, %7#0, %8#0, %7#1, %8#1) {in_layout = ["[]", "[{},{tp}]", "[{}]", "[{},{tp}]", "[{}]"]} : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.m", msc.owner = "b", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "b", "w.m", "b.m"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=4,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %y: tensor<8xi32, #msc.layout<"[{dp,tp}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>, %b.m: tensor<6xf32, #msc.layout<"[{dp,tp}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">> loc("dense")
    %1 = "msc.all_to_all"(%0) : (tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("bias_add")
    %2 = "msc.add"(%1, %b) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("bias_add")
    %3 = "msc.softmax_cross_entropy"(%2, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<8xi32, #msc.layout<"[{dp,tp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %4 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.softmax_cross_entropy_grad"(%2, %y, %4) {forward = "loss", letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<8xi32, #msc.layout<"[{dp,tp}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("loss.grad")
    %6 = "msc.reduce_sum"(%5) {dims = [0], forward = "%2", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={dp,tp}">> loc("bias_add.grad")
    %7 = "msc.all_to_all"(%5) : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">> loc("dense.grad")
    %8 = "msc.matmul"(%x, %7) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{tp}] partial={dp}">> loc("dense.grad")
    %9 = "msc.shard"(%w) : (tensor<4x6xf32, #msc.layout<"[{},{tp}]">>) -> tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">> loc("w.update")
    %10 = "msc.reduce_scatter"(%8) : (tensor<4x6xf32, #msc.layout<"[{},{tp}] partial={dp}">>) -> tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">> loc("w.update")
    %11:2 = "msc.momentum"(%9, %w.m, %10) {lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>) -> (tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>, tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>) loc("w.update")
    %12 = "msc.shard"(%b) : (tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{dp,tp}]">> loc("b.update")
    %13 = "msc.reduce_scatter"(%6) : (tensor<6xf32, #msc.layout<"[{}] partial={dp,tp}">>) -> tensor<6xf32, #msc.layout<"[{dp,tp}]">> loc("b.update")
    %14:2 = "msc.momentum"(%12, %b.m, %13) {lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{dp,tp}]">>, tensor<6xf32, #msc.layout<"[{dp,tp}]">>, tensor<6xf32, #msc.layout<"[{dp,tp}]">>) -> (tensor<6xf32, #msc.layout<"[{dp,tp}]">>, tensor<6xf32, #msc.layout<"[{dp,tp}]">>) loc("b.update")
    %15 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>) -> tensor<f32, #msc.layout<"[]">>
    %16 = "msc.all_gather"(%11#0) : (tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{tp}]">>
    %17 = "msc.all_gather"(%14#0) : (tensor<6xf32, #msc.layout<"[{dp,tp}]">>) -> tensor<6xf32, #msc.layout<"[{}]">>
    "msc.return"(%15, %16, %17, %11#1, %14#1) {in_layout = ["[]", "[{},{tp}]", "[{}]", "[{dp},{tp}]", "[{dp,tp}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<4x6xf32, #msc.layout<"[{dp},{tp}]">>, tensor<6xf32, #msc.layout<"[{dp,tp}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.zero = "update and state in [{dp},{tp}]: dimension 0 over 4 ranks, 12 of 48 bytes"},
                   {msc.name = "b", msc.role = "parameter", msc.zero = "update and state in [{dp,tp}]: dimension 0 over 8 ranks, 4 of 24 bytes, parts are not equal"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.m", msc.owner = "b", msc.role = "state"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "b", "w.m", "b.m"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, %y: tensor<8xi32, #msc.layout<"[{dp,tp}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{tp}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user"} : (tensor<8x4xf32, #msc.layout<"[{dp},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{tp}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">> loc("dense")
    %1 = "msc.all_to_all"(%0) : (tensor<8x6xf32, #msc.layout<"[{dp},{tp}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("bias_add")
    %2 = "msc.add"(%1, %b) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">> loc("bias_add")
    %3 = "msc.softmax_cross_entropy"(%2, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{dp,tp},{}]">>, tensor<8xi32, #msc.layout<"[{dp,tp}]">>) -> tensor<f32, #msc.layout<"[] partial={dp,tp}">> loc("loss")
    %4 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={dp,tp}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%4) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.zero = "update and state in [{dp},{tp}]: dimension 0 over 4 ranks, 12 of 48 bytes"},
                   {msc.name = "b", msc.role = "parameter", msc.zero = "update and state in [{dp,tp}]: dimension 0 over 8 ranks, 4 of 24 bytes, parts are not equal"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
