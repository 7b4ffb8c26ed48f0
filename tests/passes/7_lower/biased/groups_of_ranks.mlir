// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=localize,unfold,biased %s
// Ranks share the groups along one axis, and the rows of the images along the other.
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">, msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>, %w: tensor<6x2x3x3xf32, #msc.layout<"[{x},{},{},{}]">>, %b: tensor<1x6x1x1xf32, #msc.layout<"[{},{x},{},{}]">>):
    %0 = "msc.conv2d"(%x, %w) {groups = 2 : i64, padding = [1, 1, 1, 1]} : (tensor<2x4x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>, tensor<6x2x3x3xf32, #msc.layout<"[{x},{},{},{}]">>) -> tensor<2x6x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>
    %1 = "msc.add"(%0, %b) : (tensor<2x6x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>, tensor<1x6x1x1xf32, #msc.layout<"[{},{x},{},{}]">>) -> tensor<2x6x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>
    %2 = "msc.relu"(%1) : (tensor<2x6x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>) -> tensor<2x6x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>
    "msc.return"(%2) : (tensor<2x6x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">, msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x2x4x4xf32>, %w: tensor<3x2x3x3xf32>, %b: tensor<1x3x1x1xf32>):
    %0 = "msc.comm"(%x) {dims = [2, 2, 6, 4], from = ["[{},{x},{y},{}]"], halo = [2, 1, 1, 4], part_of = [tensor<2x4x12x4xf32, #msc.layout<"[{},{x},{y},{}]">>], reduction = "sum", shape = [2, 4, 8, 4], to = ["[{},{x},{y},{}]"], verb = "halo"} : (tensor<2x2x4x4xf32>) -> tensor<2x2x6x4xf32>
    %1 = "msc.biased_conv2d"(%0, %w, %b) {any_order = true, groups = 1 : i64, library = true, padding = [0, 0, 1, 1], part_of = [tensor<2x6x8x4xf32, #msc.layout<"[{},{x},{y},{}]">>], relu = true} : (tensor<2x2x6x4xf32>, tensor<3x2x3x3xf32>, tensor<1x3x1x1xf32>) -> tensor<2x3x4x4xf32>
    "msc.return"(%1) : (tensor<2x3x4x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{x},{y},{}]", msc.shape = [2, 4, 8, 4]},
                   {msc.layout = "[{x},{},{},{}]", msc.shape = [6, 2, 3, 3]},
                   {msc.layout = "[{},{x},{},{}]", msc.shape = [1, 6, 1, 1]}],
      result_layouts = ["[{},{x},{y},{}]"],
      result_shapes = [[2, 6, 8, 4]],
      sym_name = "main"} : () -> ()
}
