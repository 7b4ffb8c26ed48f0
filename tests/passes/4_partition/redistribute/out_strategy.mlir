// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --set strict_parameter_layout=false --from=strategies --until=redistribute --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x32xf32>, %w: tensor<8x32xf32>, %t: tensor<16x8xf32>, %i: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[4, 2], [1, 2]], out_strategy = [[8, 1]], transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("scattered rows")
    %1 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], [1, 4]], out_strategy = [[4, 1]], transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("scattered and summed")
    %2 = "msc.matmul"(%x, %w) {in_strategy = [[4, 2], [1, 2]], out_strategy = [[4, 1]], transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("summed")
    %3 = "msc.gather"(%t, %i) {in_strategy = [[4, 1], [2]], out_strategy = [[2, 4]]} : (tensor<16x8xf32>, tensor<8xi32>) -> tensor<8x8xf32> loc("rows of a table")
    %4 = "msc.matmul"(%x, %w) {in_layout = ["[{d:(1)4},{d:(4)2}]", ""], out_layout = ["[{d:(1)4},{d:(4)2}]"], transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("by layouts")
    %5 = "msc.relu"(%0) {in_strategy = [[8, 1]], out_strategy = [[8, 1]]} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("as the rule yields")
    "msc.return"(%1, %2, %3, %4, %5) : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<8x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x32xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>, %w: tensor<8x32xf32, #msc.layout<"[{},{d:(4)2}]">>, %t: tensor<16x8xf32, #msc.layout<"[{d:(2)4},{}]">>, %i: tensor<8xi32, #msc.layout<"[{d:(1)2}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user", transpose_b = true} : (tensor<64x32xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>, tensor<8x32xf32, #msc.layout<"[{},{d:(4)2}]">>) -> tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}] partial={d:(4)2}">> loc("scattered rows")
    %1 = "msc.reduce_scatter"(%0) : (tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}] partial={d:(4)2}">>) -> tensor<64x8xf32, #msc.layout<"[{d},{}]">> loc("scattered rows")
    %2 = "msc.exchange"(%x) : (tensor<64x32xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>) -> tensor<64x32xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">> loc("scattered and summed")
    %3 = "msc.shard"(%w) : (tensor<8x32xf32, #msc.layout<"[{},{d:(4)2}]">>) -> tensor<8x32xf32, #msc.layout<"[{},{d:(4)2,d:(1)2}]">> loc("scattered and summed")
    %4 = "msc.permute"(%3) : (tensor<8x32xf32, #msc.layout<"[{},{d:(4)2,d:(1)2}]">>) -> tensor<8x32xf32, #msc.layout<"[{},{d:(2)4}]">> loc("scattered and summed")
    %5 = "msc.matmul"(%2, %4) {by = "user", conflicts = [{by = "scattered rows", dim = 1 : i64, here = "{d:(2)4}", there = "{d:(4)2}", value = "x"}, {by = "scattered rows", dim = 1 : i64, here = "{d:(2)4}", there = "{d:(4)2}", value = "w"}], transpose_b = true} : (tensor<64x32xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, tensor<8x32xf32, #msc.layout<"[{},{d:(2)4}]">>) -> tensor<64x8xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">> loc("scattered and summed")
    %6 = "msc.reduce_scatter"(%5) : (tensor<64x8xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>) -> tensor<64x8xf32, #msc.layout<"[{d},{}]">> loc("scattered and summed")
    %7 = "msc.all_gather"(%6) : (tensor<64x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("scattered and summed")
    %8 = "msc.matmul"(%x, %w) {by = "user", transpose_b = true} : (tensor<64x32xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>, tensor<8x32xf32, #msc.layout<"[{},{d:(4)2}]">>) -> tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}] partial={d:(4)2}">> loc("summed")
    %9 = "msc.all_reduce"(%8) : (tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}] partial={d:(4)2}">>) -> tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}]">> loc("summed")
    %10 = "msc.gather"(%t, %i) {by = "user"} : (tensor<16x8xf32, #msc.layout<"[{d:(2)4},{}]">>, tensor<8xi32, #msc.layout<"[{d:(1)2}]">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">> loc("rows of a table")
    %11 = "msc.reduce_scatter"(%10) : (tensor<8x8xf32, #msc.layout<"[{d:(1)2},{}] partial={d:(2)4}">>) -> tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">> loc("rows of a table")
    %12 = "msc.matmul"(%x, %w) {by = "user", transpose_b = true} : (tensor<64x32xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>, tensor<8x32xf32, #msc.layout<"[{},{d:(4)2}]">>) -> tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}] partial={d:(4)2}">> loc("by layouts")
    %13 = "msc.reduce_scatter"(%12) : (tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}] partial={d:(4)2}">>) -> tensor<64x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">> loc("by layouts")
    %14 = "msc.relu"(%1) {by = "user"} : (tensor<64x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<64x8xf32, #msc.layout<"[{d},{}]">> loc("as the rule yields")
    "msc.return"(%7, %9, %11, %13, %14) {in_layout = ["[{d:(1)4},{}]", "[{d:(1)4},{}]", "[{d:(1)2},{d:(2)4}]", "[{d:(1)4},{d:(4)2}]", "[{d},{}]"]} : (tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}]">>, tensor<64x8xf32, #msc.layout<"[{d:(1)4},{}]">>, tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(2)4}]">>, tensor<64x8xf32, #msc.layout<"[{d:(1)4},{d:(4)2}]">>, tensor<64x8xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
