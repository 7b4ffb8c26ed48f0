// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=annotations,functional --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x12xf32>, %v: tensor<12x4xf32>):
    %0 = "msc.tanh"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("before")
    %1 = "msc.matmul"(%0, %w) {shard = {in_strategy = [[4, 1]], name = "ffn", out_strategy = [[4, 1]]}} : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32> loc("up")
    %2 = "msc.relu"(%1) {shard = {in_strategy = [[4, 1]], name = "ffn", out_strategy = [[4, 1]]}} : (tensor<8x12xf32>) -> tensor<8x12xf32> loc("bend")
    %3 = "msc.matmul"(%2, %v) {shard = {in_strategy = [[4, 1]], name = "ffn", out_strategy = [[4, 1]]}} : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32> loc("down")
    %4 = "msc.add"(%3, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc("after")
    "msc.return"(%4, %3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x12xf32>, %v: tensor<12x4xf32>):
    %0 = "msc.tanh"(%x) {in_layout = ["[{},{}]"], out_layout = ["[{},{}]"]} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("before")
    %1 = "msc.broadcast_to"(%0) {border = true, in_strategy = [[4, 1]], pinned = true, shape = [8, 4]} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("ffn.in0")
    %2 = "msc.matmul"(%1, %w) : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32> loc("up")
    %3 = "msc.relu"(%2) : (tensor<8x12xf32>) -> tensor<8x12xf32> loc("bend")
    %4 = "msc.matmul"(%3, %v) : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32> loc("down")
    %5 = "msc.broadcast_to"(%4) {border = true, in_strategy = [[4, 1]], pinned = true, shape = [8, 4]} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("ffn.out0")
    %6 = "msc.add"(%5, %0) {in_layout = ["[{},{}]", "[{},{}]"], out_layout = ["[{},{}]"]} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc("after")
    "msc.return"(%6, %5) : (tensor<8x4xf32>, tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
