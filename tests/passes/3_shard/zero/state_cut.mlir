// RUN: msc opt --set device_num=4 --set parallel_mode=data_parallel --set zero=1 --set 'parallel_optimizer_config={"parallel_optimizer_threshold":0}' --check-numerics --passes=zero %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b.m: tensor<6xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.add"(%0, %b) {by = "default", in_layout = ["[{d},{}]", "[{}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("bias_add")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %3 = "msc.constant"() {by = "default", value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "loss", in_layout = ["[{d},{}]", "[{d}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %5 = "msc.reduce_sum"(%4) {dims = [0], forward = "bias_add", in_layout = ["[{d},{}]"], letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={d}">> loc("bias_add.grad")
    %6 = "msc.matmul"(%x, %4) {forward = "dense", in_layout = ["[{d},{}]", "[{d},{}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("dense.grad")
    %7:2 = "msc.momentum"(%w, %w.m, %6) {in_layout = ["[{},{}]", "[{},{}]", "[{},{}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) loc("w.update")
    %8:2 = "msc.momentum"(%b, %b.m, %5) {in_layout = ["[{}]", "[{}]", "[{}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}] partial={d}">>) -> (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) loc("b.update")
    "msc.return"(%2, %7#0, %8#0, %7#1, %8#1) {in_layout = ["[]", "[{},{}]", "[{}]", "[{},{}]", "[{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> ()
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
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %b.m: tensor<6xf32, #msc.layout<"[{d}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.add"(%0, %b) {by = "default", in_layout = ["[{d},{}]", "[{}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("bias_add")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %3 = "msc.constant"() {by = "default", value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "loss", in_layout = ["[{d},{}]", "[{d}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %5 = "msc.reduce_sum"(%4) {dims = [0], forward = "bias_add", in_layout = ["[{d},{}]"], letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={d}">> loc("bias_add.grad")
    %6 = "msc.matmul"(%x, %4) {forward = "dense", in_layout = ["[{d},{}]", "[{d},{}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("dense.grad")
    %7:2 = "msc.momentum"(%w, %w.m, %6) {in_layout = ["[{d},{}]", "[{d},{}]", "[{d},{}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) loc("w.update")
    %8:2 = "msc.momentum"(%b, %b.m, %5) {in_layout = ["[{d}]", "[{d}]", "[{d}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{}] partial={d}">>) -> (tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>) loc("b.update")
    "msc.return"(%2, %7#0, %8#0, %7#1, %8#1) {in_layout = ["[]", "[{},{}]", "[{}]", "[{d},{}]", "[{d}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.zero = "update and state in [{d},{}]: dimension 0 over 4 ranks, 24 of 96 bytes"},
                   {msc.name = "b", msc.role = "parameter", msc.zero = "update and state in [{d}]: dimension 0 over 4 ranks, 8 of 24 bytes, parts are not equal"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.m", msc.owner = "b", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "b", "w.m", "b.m"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5]} : () -> ()
}
