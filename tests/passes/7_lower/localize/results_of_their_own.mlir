// RUN: msc opt --passes=localize %s
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%a: tensor<4x2xf32, #msc.layout<"[{},{}]">>, %b: tensor<4x2xf32, #msc.layout<"[{},{}]">>, %c: tensor<8xf32, #msc.layout<"[{}]">>, %d: tensor<8xf32, #msc.layout<"[{}]">>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<8xf32>} : () -> tensor<8xf32, #msc.layout<"[{}]">>
    %1 = "msc.reshape"(%a) {shape = [8]} : (tensor<4x2xf32, #msc.layout<"[{},{}]">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    "msc.return"(%1, %b, %a, %0, %d) : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>, tensor<4x2xf32, #msc.layout<"[{},{}]">>, tensor<8xf32, #msc.layout<"[{}]">>, tensor<8xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "state"},
                   {msc.name = "b", msc.role = "state"},
                   {msc.name = "c", msc.role = "state"},
                   {msc.name = "d", msc.role = "state"}],
      results = ["old a", "a", "b", "c", "d"],
      sym_name = "train",
      ties = [-1, 0, 1, 2, 3]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<8xf32>} : () -> tensor<8xf32>
    %1 = "msc.reshape"(%a) {shape = [8]} : (tensor<4x2xf32>) -> tensor<8xf32>
    %2 = "msc.broadcast_to"(%1) {shape = [8]} : (tensor<8xf32>) -> tensor<8xf32>
    %3 = "msc.broadcast_to"(%b) {shape = [4, 2]} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %4 = "msc.broadcast_to"(%a) {shape = [4, 2]} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %5 = "msc.broadcast_to"(%0) {shape = [8]} : (tensor<8xf32>) -> tensor<8xf32>
    "msc.return"(%2, %3, %4, %5, %d) : (tensor<8xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<8xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "a", msc.role = "state", msc.shape = [4, 2]},
                   {msc.layout = "[{},{}]", msc.name = "b", msc.role = "state", msc.shape = [4, 2]},
                   {msc.layout = "[{}]", msc.name = "c", msc.role = "state", msc.shape = [8]},
                   {msc.layout = "[{}]", msc.name = "d", msc.role = "state", msc.shape = [8]}],
      result_layouts = ["[{}]", "[{},{}]", "[{},{}]", "[{}]", "[{}]"],
      result_shapes = [[8], [4, 2], [4, 2], [8], [8]],
      results = ["old a", "a", "b", "c", "d"],
      sym_name = "train",
      ties = [-1, 0, 1, 2, 3]} : () -> ()
}
