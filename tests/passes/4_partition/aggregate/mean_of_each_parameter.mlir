// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --set gradients_mean=true --set gradients_mean_of=parameter --passes=aggregate %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %2 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.softmax_cross_entropy_grad"(%0, %y, %2) {forward = "loss", in_layout = ["[{d},{}]", "[{d}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %4 = "msc.matmul"(%x, %3) {forward = "dense", in_layout = ["[{d},{}]", "[{d},{}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("dense.grad")
    %5:2 = "msc.momentum"(%w, %w.m, %4) {in_layout = ["[{},{}]", "[{},{}]", "[{},{}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) loc("w.update")
    "msc.return"(%1, %5#0, %5#1) {in_layout = ["[]", "[{},{}]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    "msc.return"(%1, %0) {in_layout = ["[]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %2 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.softmax_cross_entropy_grad"(%0, %y, %2) {forward = "loss", in_layout = ["[{d},{}]", "[{d}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %4 = "msc.matmul"(%x, %3) {forward = "dense", in_layout = ["[{d},{}]", "[{d},{}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("dense.grad")
    %5 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.mul"(%4, %5) {in_layout = ["[{},{}]", "[]"]} : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %7:2 = "msc.momentum"(%w, %w.m, %6) {in_layout = ["[{},{}]", "[{},{}]", "[{},{}]"], lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) loc("w.update")
    "msc.return"(%1, %7#0, %7#1) {in_layout = ["[]", "[{},{}]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    "msc.return"(%1, %0) {in_layout = ["[]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
}
