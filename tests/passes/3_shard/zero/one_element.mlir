// RUN: msc opt --set device_num=4 --set parallel_mode=data_parallel --set zero=2 --set 'parallel_optimizer_config={"parallel_optimizer_threshold":0}' --check-numerics --from=zero --until=redistribute %s
// A parameter of one element has no parts to cut.
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %b: tensor<1x1xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.add"(%x, %b) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<1x1xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("shift")
    %1 = "msc.reduce_sum"(%0) {by = "default", dims = [0, 1], in_layout = ["[{d},{}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %2 = "msc.reduce_sum"(%0) {dims = [0, 1], forward = "shift", in_layout = ["[{d},{}]"], keep_dims = true, letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<1x1xf32, #msc.layout<"[{},{}] partial={d}">> loc("shift.grad")
    %3 = "msc.sgd"(%b, %2) {in_layout = ["[{},{}]", "[{},{}]"], lr = 5.0e-02 : f64} : (tensor<1x1xf32, #msc.layout<"[{},{}]">>, tensor<1x1xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<1x1xf32, #msc.layout<"[{},{}]">> loc("b.update")
    "msc.return"(%1, %3) {in_layout = ["[]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<1x1xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "b"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %b: tensor<1x1xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.add"(%x, %b) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<1x1xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("shift")
    %1 = "msc.reduce_sum"(%0) {by = "default", dims = [0, 1]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %2 = "msc.reduce_sum"(%0) {dims = [0, 1], forward = "shift", keep_dims = true, letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<1x1xf32, #msc.layout<"[{},{}] partial={d}">> loc("shift.grad")
    %3 = "msc.all_reduce"(%2) : (tensor<1x1xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<1x1xf32, #msc.layout<"[{},{}]">> loc("b.update")
    %4 = "msc.sgd"(%b, %3) {lr = 5.0e-02 : f64} : (tensor<1x1xf32, #msc.layout<"[{},{}]">>, tensor<1x1xf32, #msc.layout<"[{},{}]">>) -> tensor<1x1xf32, #msc.layout<"[{},{}]">> loc("b.update")
    %5 = "msc.all_reduce"(%1) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%5, %4) {in_layout = ["[]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<1x1xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter", msc.zero = "whole: no dimension can be cut further"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "b"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %b: tensor<1x1xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.add"(%x, %b) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<1x1xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("shift")
    %1 = "msc.reduce_sum"(%0) {by = "default", dims = [0, 1]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %2 = "msc.all_reduce"(%1) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%2) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter", msc.zero = "whole: no dimension can be cut further"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
