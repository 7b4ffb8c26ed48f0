// RUN: msc opt --passes=localize --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%i: tensor<6xi32, #msc.layout<"[{}]">>, %u: tensor<6x4xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.scatter_add"(%i, %u) {rows = 100 : i64} : (tensor<6xi32, #msc.layout<"[{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<100x4xf32, #msc.layout<"[{d},{}]">>
    %1 = "msc.one_hot"(%i) {depth = 100 : i64} : (tensor<6xi32, #msc.layout<"[{}]">>) -> tensor<6x100xf32, #msc.layout<"[{},{d}]">>
    "msc.return"(%0, %1) : (tensor<100x4xf32, #msc.layout<"[{d},{}]">>, tensor<6x100xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "i", msc.role = "data"},
                   {msc.name = "u", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%i: tensor<6xi32>, %u: tensor<6x4xf32>):
    %0 = "msc.scatter_add"(%i, %u) {blocks = 2 : i64, part_of = [tensor<100x4xf32, #msc.layout<"[{d},{}]">>], rows = 25 : i64, start = 0 : i64, whole = 100 : i64} : (tensor<6xi32>, tensor<6x4xf32>) -> tensor<25x4xf32>
    %1 = "msc.one_hot"(%i) {depth = 25 : i64, part_of = [tensor<6x100xf32, #msc.layout<"[{},{d}]">>], start = 1 : i64, whole = 100 : i64} : (tensor<6xi32>) -> tensor<6x25xf32>
    "msc.return"(%0, %1) : (tensor<25x4xf32>, tensor<6x25xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{}]", msc.name = "i", msc.role = "data", msc.shape = [6]},
                   {msc.layout = "[{},{}]", msc.name = "u", msc.role = "data", msc.shape = [6, 4]}],
      result_layouts = ["[{d},{}]", "[{},{d}]"],
      result_shapes = [[100, 4], [6, 100]],
      starts = [{dim = 0 : i64, layout = "[{d},{}]", shape = [100, 4]}, {dim = 1 : i64, layout = "[{},{d}]", shape = [6, 100]}],
      sym_name = "forward"} : () -> ()
}
