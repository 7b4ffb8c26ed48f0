// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=strategies --check-numerics %s
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
  ^bb0(%x: tensor<64x32xf32>, %w: tensor<8x32xf32>, %t: tensor<16x8xf32>, %i: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[4, 2], [1, 2]], sharding = {k = "{d:(4)2}", m = "{d:(1)4}", n = "{}"}, transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("scattered rows")
    %1 = "msc.broadcast_to"(%0) {by = "user", pinned = true, shape = [64, 8], sharding = {A = "{d}", B = "{}"}} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("scattered rows")
    %2 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[2, 4], [1, 4]], sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}, transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("scattered and summed")
    %3 = "msc.broadcast_to"(%2) {by = "user", pinned = true, shape = [64, 8], sharding = {A = "{d:(1)4}", B = "{}"}} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("scattered and summed")
    %4 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[4, 2], [1, 2]], sharding = {k = "{d:(4)2}", m = "{d:(1)4}", n = "{}"}, transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("summed")
    %5 = "msc.broadcast_to"(%4) {by = "user", pinned = true, shape = [64, 8], sharding = {A = "{d:(1)4}", B = "{}"}} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("summed")
    %6 = "msc.gather"(%t, %i) {by = "user", in_strategy = [[4, 1], [2]], sharding = {A = "{d:(1)2}", d = "{}", v = "{d:(2)4}"}} : (tensor<16x8xf32>, tensor<8xi32>) -> tensor<8x8xf32> loc("rows of a table")
    %7 = "msc.broadcast_to"(%6) {by = "user", pinned = true, shape = [8, 8], sharding = {A = "{d:(1)2}", B = "{d:(2)4}"}} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("rows of a table")
    %8 = "msc.matmul"(%x, %w) {by = "user", sharding = {k = "{d:(4)2}", m = "{d:(1)4}", n = "{}"}, transpose_b = true} : (tensor<64x32xf32>, tensor<8x32xf32>) -> tensor<64x8xf32> loc("by layouts")
    %9 = "msc.broadcast_to"(%8) {by = "user", pinned = true, shape = [64, 8], sharding = {A = "{d:(1)4}", B = "{d:(4)2}"}} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("by layouts")
    %10 = "msc.relu"(%1) {by = "user", in_strategy = [[8, 1]], sharding = {A = "{d}", B = "{}"}} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("as the rule yields")
    "msc.return"(%3, %5, %7, %9, %10) : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<8x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
