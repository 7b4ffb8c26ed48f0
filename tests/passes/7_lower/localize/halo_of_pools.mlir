// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=localize %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x2x8x4xf32, #msc.layout<"[{},{},{d},{}]">>, %dy: tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>):
    %0 = "msc.max_pool"(%x) {kernel = [3, 3], padding = [1, 1, 1, 1], stride = [2, 1]} : (tensor<2x2x8x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>
    %1 = "msc.max_pool_index"(%x) {kernel = [3, 3], padding = [1, 1, 1, 1], stride = [2, 1]} : (tensor<2x2x8x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> tensor<2x2x4x4xi32, #msc.layout<"[{},{},{d},{}]">>
    %2 = "msc.max_pool_grad"(%1, %dy) {kernel = [3, 3], padding = [1, 1, 1, 1], size = [8, 4], stride = [2, 1]} : (tensor<2x2x4x4xi32, #msc.layout<"[{},{},{d},{}]">>, tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> tensor<2x2x8x4xf32, #msc.layout<"[{},{},{d},{}]">>
    %3 = "msc.avg_pool"(%x) {kernel = [3, 1], padding = [1, 1, 0, 0], stride = [2, 1]} : (tensor<2x2x8x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>
    "msc.return"(%0, %1, %2, %3) : (tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>, tensor<2x2x4x4xi32, #msc.layout<"[{},{},{d},{}]">>, tensor<2x2x8x4xf32, #msc.layout<"[{},{},{d},{}]">>, tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x2x4x4xf32>, %dy: tensor<2x2x2x4xf32>):
    %0 = "msc.comm"(%x) {dims = [2, 2, 5, 4], from = ["[{},{},{d},{}]"], halo = [2, 1, 0, 4], part_of = [tensor<2x2x10x4xf32, #msc.layout<"[{},{},{d},{}]">>], reduction = "max", shape = [2, 2, 8, 4], to = ["[{},{},{d},{}]"], verb = "halo"} : (tensor<2x2x4x4xf32>) -> tensor<2x2x5x4xf32>
    %1 = "msc.max_pool"(%0) {kernel = [3, 3], padding = [0, 0, 1, 1], part_of = [tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>], stride = [2, 1]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x2x4xf32>
    %2 = "msc.max_pool_index"(%0) {kernel = [3, 3], padding = [0, 0, 1, 1], part_of = [tensor<2x2x4x4xi32, #msc.layout<"[{},{},{d},{}]">>], stride = [2, 1]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x2x4xi32>
    %3 = "msc.comm"(%2) {dims = [2, 2, 3, 4], from = ["[{},{},{d},{}]"], halo = [2, 0, 1, 2], part_of = [tensor<2x2x6x4xi32, #msc.layout<"[{},{},{d},{}]">>], reduction = "sum", shape = [2, 2, 4, 4], to = ["[{},{},{d},{}]"], verb = "halo"} : (tensor<2x2x2x4xi32>) -> tensor<2x2x3x4xi32>
    %4 = "msc.comm"(%dy) {dims = [2, 2, 3, 4], from = ["[{},{},{d},{}]"], halo = [2, 0, 1, 2], part_of = [tensor<2x2x6x4xf32, #msc.layout<"[{},{},{d},{}]">>], reduction = "sum", shape = [2, 2, 4, 4], to = ["[{},{},{d},{}]"], verb = "halo"} : (tensor<2x2x2x4xf32>) -> tensor<2x2x3x4xf32>
    %5 = "msc.max_pool_grad"(%3, %4) {kernel = [3, 3], padding = [1, 2, 1, 1], part_of = [tensor<2x2x8x4xf32, #msc.layout<"[{},{},{d},{}]">>], size = [4, 4], stride = [2, 1]} : (tensor<2x2x3x4xi32>, tensor<2x2x3x4xf32>) -> tensor<2x2x4x4xf32>
    %6 = "msc.comm"(%x) {dims = [2, 2, 5, 4], from = ["[{},{},{d},{}]"], halo = [2, 1, 0, 4], part_of = [tensor<2x2x10x4xf32, #msc.layout<"[{},{},{d},{}]">>], reduction = "sum", shape = [2, 2, 8, 4], to = ["[{},{},{d},{}]"], verb = "halo"} : (tensor<2x2x4x4xf32>) -> tensor<2x2x5x4xf32>
    %7 = "msc.avg_pool"(%6) {kernel = [3, 1], padding = [0, 0, 0, 0], part_of = [tensor<2x2x4x4xf32, #msc.layout<"[{},{},{d},{}]">>], stride = [2, 1]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x2x4xf32>
    "msc.return"(%1, %2, %5, %7) : (tensor<2x2x2x4xf32>, tensor<2x2x2x4xi32>, tensor<2x2x4x4xf32>, tensor<2x2x2x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{},{d},{}]", msc.shape = [2, 2, 8, 4]},
                   {msc.layout = "[{},{},{d},{}]", msc.shape = [2, 2, 4, 4]}],
      result_layouts = ["[{},{},{d},{}]", "[{},{},{d},{}]", "[{},{},{d},{}]", "[{},{},{d},{}]"],
      result_shapes = [[2, 2, 4, 4], [2, 2, 4, 4], [2, 2, 8, 4], [2, 2, 4, 4]],
      sym_name = "forward"} : () -> ()
}
