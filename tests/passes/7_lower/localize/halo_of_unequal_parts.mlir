// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=mask,localize --check-numerics %s
// Nine windows without padding over eleven rows, in parts of 5 and 4 rows of y and of 6 and 5 of x: a rank that makes
// windows fetches 7 rows of x, one that makes rows of x fetches windows; those that do not exist are 0.
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<1x2x11x4xf32, #msc.layout<"[{},{},{d},{}]">>, %w: tensor<2x2x3x1xf32, #msc.layout<"[{},{},{},{}]">>, %dy: tensor<1x2x9x4xf32, #msc.layout<"[{},{},{d},{}]">>):
    %0 = "msc.conv2d"(%x, %w) : (tensor<1x2x11x4xf32, #msc.layout<"[{},{},{d},{}]">>, tensor<2x2x3x1xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<1x2x9x4xf32, #msc.layout<"[{},{},{d},{}]">>
    %1 = "msc.conv2d_weight_grad"(%x, %dy) {kernel = [3, 1]} : (tensor<1x2x11x4xf32, #msc.layout<"[{},{},{d},{}]">>, tensor<1x2x9x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> tensor<2x2x3x1xf32, #msc.layout<"[{},{},{},{}] partial={d}">>
    %2 = "msc.conv2d_transpose"(%dy, %w) {size = [11, 4]} : (tensor<1x2x9x4xf32, #msc.layout<"[{},{},{d},{}]">>, tensor<2x2x3x1xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<1x2x11x4xf32, #msc.layout<"[{},{},{d},{}]">>
    %3 = "msc.max_pool"(%x) {kernel = [2, 1], padding = [0, 1, 0, 0], stride = [2, 1]} : (tensor<1x2x11x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> tensor<1x2x6x4xf32, #msc.layout<"[{},{},{d},{}]">>
    "msc.return"(%0, %1, %2, %3) : (tensor<1x2x9x4xf32, #msc.layout<"[{},{},{d},{}]">>, tensor<2x2x3x1xf32, #msc.layout<"[{},{},{},{}] partial={d}">>, tensor<1x2x11x4xf32, #msc.layout<"[{},{},{d},{}]">>, tensor<1x2x6x4xf32, #msc.layout<"[{},{},{d},{}]">>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<1x2x6x4xf32>, %w: tensor<2x2x3x1xf32>, %dy: tensor<1x2x5x4xf32>):
    %0 = "msc.comm"(%x) {dims = [1, 2, 7, 4], from = ["[{},{},{d},{}]"], halo = [2, 0, 2, 5], part_of = [tensor<1x2x14x4xf32, #msc.layout<"[{},{},{d},{}]">>], reduction = "sum", shape = [1, 2, 11, 4], to = ["[{},{},{d},{}]"], verb = "halo"} : (tensor<1x2x6x4xf32>) -> tensor<1x2x7x4xf32>
    %1 = "msc.conv2d"(%0, %w) {part_of = [tensor<1x2x9x4xf32, #msc.layout<"[{},{},{d},{}]">>]} : (tensor<1x2x7x4xf32>, tensor<2x2x3x1xf32>) -> tensor<1x2x5x4xf32>
    %2 = "msc.constant"() {part_of = [tensor<f32, #msc.layout<"[]">>], value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.iota"() {dim = 2 : i64, part_of = [tensor<1x1x9x1xi32, #msc.layout<"[{},{},{d},{}]">>], start = 0 : i64, type = tensor<1x1x5x1xi32>} : () -> tensor<1x1x5x1xi32>
    %4 = "msc.constant"() {part_of = [tensor<i32, #msc.layout<"[]">>], value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %5 = "msc.compare"(%3, %4) {part_of = [tensor<1x1x9x1xi1, #msc.layout<"[{},{},{d},{}]">>], predicate = "lt"} : (tensor<1x1x5x1xi32>, tensor<i32>) -> tensor<1x1x5x1xi1>
    %6 = "msc.select"(%5, %dy, %2) {part_of = [tensor<1x2x9x4xf32, #msc.layout<"[{},{},{d},{}]">>]} : (tensor<1x1x5x1xi1>, tensor<1x2x5x4xf32>, tensor<f32>) -> tensor<1x2x5x4xf32>
    %7 = "msc.conv2d_weight_grad"(%0, %6) {kernel = [3, 1], part_of = [tensor<2x2x3x1xf32, #msc.layout<"[{},{},{},{}] partial={d}">>]} : (tensor<1x2x7x4xf32>, tensor<1x2x5x4xf32>) -> tensor<2x2x3x1xf32>
    %8 = "msc.comm"(%dy) {dims = [1, 2, 8, 4], from = ["[{},{},{d},{}]"], halo = [2, 2, 0, 6], part_of = [tensor<1x2x16x4xf32, #msc.layout<"[{},{},{d},{}]">>], reduction = "sum", shape = [1, 2, 9, 4], to = ["[{},{},{d},{}]"], verb = "halo"} : (tensor<1x2x5x4xf32>) -> tensor<1x2x8x4xf32>
    %9 = "msc.conv2d_transpose"(%8, %w) {padding = [2, 2, 0, 0], part_of = [tensor<1x2x11x4xf32, #msc.layout<"[{},{},{d},{}]">>], size = [6, 4]} : (tensor<1x2x8x4xf32>, tensor<2x2x3x1xf32>) -> tensor<1x2x6x4xf32>
    %10 = "msc.comm"(%x) {dims = [1, 2, 6, 4], from = ["[{},{},{d},{}]"], halo = [2, 0, 0, 6], part_of = [tensor<1x2x12x4xf32, #msc.layout<"[{},{},{d},{}]">>], reduction = "max", shape = [1, 2, 11, 4], to = ["[{},{},{d},{}]"], verb = "halo"} : (tensor<1x2x6x4xf32>) -> tensor<1x2x6x4xf32>
    %11 = "msc.max_pool"(%10) {kernel = [2, 1], padding = [0, 0, 0, 0], part_of = [tensor<1x2x6x4xf32, #msc.layout<"[{},{},{d},{}]">>], stride = [2, 1]} : (tensor<1x2x6x4xf32>) -> tensor<1x2x3x4xf32>
    "msc.return"(%1, %7, %9, %11) : (tensor<1x2x5x4xf32>, tensor<2x2x3x1xf32>, tensor<1x2x6x4xf32>, tensor<1x2x3x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{},{},{d},{}]", msc.shape = [1, 2, 11, 4]},
                   {msc.layout = "[{},{},{},{}]", msc.shape = [2, 2, 3, 1]},
                   {msc.layout = "[{},{},{d},{}]", msc.shape = [1, 2, 9, 4]}],
      result_layouts = ["[{},{},{d},{}]", "[{},{},{},{}] partial={d}", "[{},{},{d},{}]", "[{},{},{d},{}]"],
      result_shapes = [[1, 2, 9, 4], [2, 2, 3, 1], [1, 2, 11, 4], [1, 2, 6, 4]],
      starts = [{behind = true, dim = 2 : i64, layout = "[{},{},{d},{}]", shape = [1, 1, 9, 1]}],
      sym_name = "forward"} : () -> ()
}
