// RUN: msc opt --passes=localize --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">} {
  "msc.func"() ({
  ^bb0(%a: tensor<6x4x10xf32, #msc.layout<"[{y},{},{x}]">>, %seed: tensor<i64, #msc.layout<"[]">>, %step: tensor<i64, #msc.layout<"[]">>):
    %0 = "msc.dropout"(%a, %seed, %step) {rate = 2.5e-01 : f64, salt = 3 : i64} : (tensor<6x4x10xf32, #msc.layout<"[{y},{},{x}]">>, tensor<i64, #msc.layout<"[]">>, tensor<i64, #msc.layout<"[]">>) -> tensor<6x4x10xf32, #msc.layout<"[{y},{},{x}]">>
    "msc.return"(%0) : (tensor<6x4x10xf32, #msc.layout<"[{y},{},{x}]">>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "seed", msc.role = "state"},
                   {msc.name = "step", msc.role = "state"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">} {
  "msc.func"() ({
  ^bb0(%a: tensor<3x4x5xf32>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.dropout"(%a, %seed, %step) {part_of = [tensor<6x4x10xf32, #msc.layout<"[{y},{},{x}]">>], rate = 2.5e-01 : f64, salt = 3 : i64, starts = [0, -1, 1], whole_shape = [6, 4, 10]} : (tensor<3x4x5xf32>, tensor<i64>, tensor<i64>) -> tensor<3x4x5xf32>
    "msc.return"(%0) : (tensor<3x4x5xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{y},{},{x}]", msc.name = "a", msc.role = "data", msc.shape = [6, 4, 10]},
                   {msc.layout = "[]", msc.name = "seed", msc.role = "state", msc.shape = []},
                   {msc.layout = "[]", msc.name = "step", msc.role = "state", msc.shape = []}],
      result_layouts = ["[{y},{},{x}]"],
      result_shapes = [[6, 4, 10]],
      starts = [{dim = 0 : i64, layout = "[{y},{},{x}]", shape = [6, 4, 10]}, {dim = 2 : i64, layout = "[{y},{},{x}]", shape = [6, 4, 10]}],
      sym_name = "forward"} : () -> ()
}
