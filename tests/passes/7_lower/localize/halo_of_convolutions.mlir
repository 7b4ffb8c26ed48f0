// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=localize %s
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x2x8x4xf32, #msc.layout<"[{},{},{x},{y}]">>, %w: tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}]">>, %dy: tensor<2x2x4x4xf32, #msc.layout<"[{},{},{x},{y}]">>):
    %0 = "msc.conv2d"(%x, %w) {padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x2x8x4xf32, #msc.layout<"[{},{},{x},{y}]">>, tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<2x2x4x4xf32, #msc.layout<"[{},{},{x},{y}]">>
    %1 = "msc.conv2d_transpose"(%dy, %w) {padding = [1, 0, 1, 1], size = [8, 4], stride = [2, 1]} : (tensor<2x2x4x4xf32, #msc.layout<"[{},{},{x},{y}]">>, tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<2x2x8x4xf32, #msc.layout<"[{},{},{x},{y}]">>
    %2 = "msc.conv2d_weight_grad"(%x, %dy) {kernel = [3, 3], padding = [1, 0, 1, 1], stride = [2, 1]} : (tensor<2x2x8x4xf32, #msc.layout<"[{},{},{x},{y}]">>, tensor<2x2x4x4xf32, #msc.layout<"[{},{},{x},{y}]">>) -> tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}] partial={x,y}">>
    %3 = "msc.all_reduce"(%2) : (tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}] partial={x,y}">>) -> tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}]">>
    "msc.return"(%0, %1, %3) : (tensor<2x2x4x4xf32, #msc.layout<"[{},{},{x},{y}]">>, tensor<2x2x8x4xf32, #msc.layout<"[{},{},{x},{y}]">>, tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"x=2,y=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x2x4x2xf32>, %w: tensor<2x2x3x3xf32>, %dy: tensor<2x2x2x2xf32>):
    %0 = "msc.comm"(%x) {dims = [2, 2, 5, 2], from = ["[{},{},{x},{y}]"], halo = [2, 1, 0, 4], part_of = [tensor<2x2x10x4xf32, #msc.layout<"[{},{},{x},{y}]">>], reduction = "sum", shape = [2, 2, 8, 4], to = ["[{},{},{x},{y}]"], verb = "halo"} : (tensor<2x2x4x2xf32>) -> tensor<2x2x5x2xf32>
    %1 = "msc.comm"(%0) {dims = [2, 2, 5, 4], from = ["[{},{},{x},{y}]"], halo = [3, 1, 1, 2], part_of = [tensor<2x2x10x8xf32, #msc.layout<"[{},{},{x},{y}]">>], reduction = "sum", shape = [2, 2, 10, 4], to = ["[{},{},{x},{y}]"], verb = "halo"} : (tensor<2x2x5x2xf32>) -> tensor<2x2x5x4xf32>
    %2 = "msc.conv2d"(%1, %w) {padding = [0, 0, 0, 0], part_of = [tensor<2x2x4x4xf32, #msc.layout<"[{},{},{x},{y}]">>], stride = [2, 1]} : (tensor<2x2x5x4xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x2x2xf32>
    %3 = "msc.comm"(%dy) {dims = [2, 2, 3, 2], from = ["[{},{},{x},{y}]"], halo = [2, 0, 1, 2], part_of = [tensor<2x2x6x4xf32, #msc.layout<"[{},{},{x},{y}]">>], reduction = "sum", shape = [2, 2, 4, 4], to = ["[{},{},{x},{y}]"], verb = "halo"} : (tensor<2x2x2x2xf32>) -> tensor<2x2x3x2xf32>
    %4 = "msc.comm"(%3) {dims = [2, 2, 3, 4], from = ["[{},{},{x},{y}]"], halo = [3, 1, 1, 2], part_of = [tensor<2x2x6x8xf32, #msc.layout<"[{},{},{x},{y}]">>], reduction = "sum", shape = [2, 2, 6, 4], to = ["[{},{},{x},{y}]"], verb = "halo"} : (tensor<2x2x3x2xf32>) -> tensor<2x2x3x4xf32>
    %5 = "msc.conv2d_transpose"(%4, %w) {padding = [1, 2, 2, 2], part_of = [tensor<2x2x8x4xf32, #msc.layout<"[{},{},{x},{y}]">>], size = [4, 2], stride = [2, 1]} : (tensor<2x2x3x4xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x4x2xf32>
    %6 = "msc.conv2d_weight_grad"(%1, %dy) {kernel = [3, 3], padding = [0, 0, 0, 0], part_of = [tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}] partial={x,y}">>], stride = [2, 1]} : (tensor<2x2x5x4xf32>, tensor<2x2x2x2xf32>) -> tensor<2x2x3x3xf32>
    %7 = "msc.comm"(%6) {dims = [2, 2, 3, 3], from = ["[{},{},{},{}] partial={x,y}"], part_of = [tensor<2x2x3x3xf32, #msc.layout<"[{},{},{},{}]">>], reduction = "sum", shape = [2, 2, 3, 3], to = ["[{},{},{},{}]"], verb = "all_reduce"} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
    "msc.return"(%2, %5, %7) : (tensor<2x2x2x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x3x3xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{},{x},{y}]", msc.shape = [2, 2, 8, 4]},
                   {msc.layout = "[{},{},{},{}]", msc.shape = [2, 2, 3, 3]},
                   {msc.layout = "[{},{},{x},{y}]", msc.shape = [2, 2, 4, 4]}],
      result_layouts = ["[{},{},{x},{y}]", "[{},{},{x},{y}]", "[{},{},{},{}]"],
      result_shapes = [[2, 2, 4, 4], [2, 2, 8, 4], [2, 2, 3, 3]],
      sym_name = "forward"} : () -> ()
}
