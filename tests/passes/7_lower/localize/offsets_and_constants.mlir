// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=localize %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%t: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %i: tensor<6xi32, #msc.layout<"[{}]">>):
    %0 = "msc.gather"(%t, %i) : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<6xi32, #msc.layout<"[{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>
    %1 = "msc.all_reduce"(%0) : (tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.iota"() {type = tensor<8xf32>} : () -> tensor<8xf32, #msc.layout<"[{d}]">>
    %3 = "msc.constant"() {value = dense<[1.0e+00, 2.0e+00, 3.0e+00, 4.0e+00, 5.0e+00, 6.0e+00, 7.0e+00, 8.0e+00]> : tensor<8xf32>} : () -> tensor<8xf32, #msc.layout<"[{d}]">>
    %4 = "msc.add"(%2, %3) : (tensor<8xf32, #msc.layout<"[{d}]">>, tensor<8xf32, #msc.layout<"[{d}]">>) -> tensor<8xf32, #msc.layout<"[{d}]">>
    %5 = "msc.reduce_mean"(%4) {dims = [0]} : (tensor<8xf32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %6 = "msc.all_reduce"(%5) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%1, %6) : (tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%t: tensor<2x4xf32>, %i: tensor<6xi32>):
    %0 = "msc.gather"(%t, %i) {part_of = [tensor<6x4xf32, #msc.layout<"[{},{}] partial={d}">>], start = 0 : i64, whole = 8 : i64} : (tensor<2x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    %1 = "msc.comm"(%0) {dims = [6, 4], from = ["[{},{}] partial={d}"], part_of = [tensor<6x4xf32, #msc.layout<"[{},{}]">>], reduction = "sum", shape = [6, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %2 = "msc.iota"() {part_of = [tensor<8xf32, #msc.layout<"[{d}]">>], start = 1 : i64, type = tensor<2xf32>} : () -> tensor<2xf32>
    %3 = "msc.constant"() {part_of = [tensor<8xf32, #msc.layout<"[{}]">>], value = dense<[1.0e+00, 2.0e+00, 3.0e+00, 4.0e+00, 5.0e+00, 6.0e+00, 7.0e+00, 8.0e+00]> : tensor<8xf32>} : () -> tensor<8xf32>
    %4 = "msc.broadcast_to"(%3) {part_of = [tensor<8xf32, #msc.layout<"[{}]">>], shape = [8]} : (tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.comm"(%4) {dims = [2], from = ["[{}]"], part_of = [tensor<8xf32, #msc.layout<"[{d}]">>], reduction = "sum", shape = [8], to = ["[{d}]"], verb = "shard"} : (tensor<8xf32>) -> tensor<2xf32>
    %6 = "msc.add"(%2, %5) {part_of = [tensor<8xf32, #msc.layout<"[{d}]">>]} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %7 = "msc.reduce_mean"(%6) {blocks = 2 : i64, count = 8 : i64, dims = [0], part_of = [tensor<f32, #msc.layout<"[] partial={d}">>]} : (tensor<2xf32>) -> tensor<f32>
    %8 = "msc.comm"(%7) {dims = [], from = ["[] partial={d}"], part_of = [tensor<f32, #msc.layout<"[]">>], reduction = "sum", shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32>
    "msc.return"(%1, %8) : (tensor<6x4xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "t", msc.role = "parameter", msc.shape = [8, 4]},
                   {msc.layout = "[{}]", msc.name = "i", msc.role = "data", msc.shape = [6]}],
      result_layouts = ["[{},{}]", "[]"],
      result_shapes = [[6, 4], []],
      starts = [{dim = 0 : i64, layout = "[{d},{}]", shape = [8, 4]}, {dim = 0 : i64, layout = "[{d}]", shape = [8]}],
      sym_name = "forward"} : () -> ()
}
