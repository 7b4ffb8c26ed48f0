// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=annotations,functional,strategies --verify-diagnostics --split-input-file %s
module {
  // expected-error @+1 {{block ffn: in_strategy must have one entry for each of its 2 arguments: before, x}}
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x12xf32>):
    %0 = "msc.tanh"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("before")
    %1 = "msc.add"(%0, %x) {shard = {in_strategy = [[4, 1]], name = "ffn", out_strategy = [[4, 1]]}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %w) {shard = {in_strategy = [[4, 1]], name = "ffn", out_strategy = [[4, 1]]}} : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32> loc("up")
    "msc.return"(%2) : (tensor<8x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  // expected-error @+1 {{block ffn: out_layout must have one entry for each of its 1 results: up}}
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x12xf32>):
    %0 = "msc.matmul"(%x, %w) {shard = {name = "ffn", out_layout = ["", "[{},{}]"]}} : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32> loc("up")
    "msc.return"(%0) : (tensor<8x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x12xf32>):
    // expected-error @+1 {{dimension 0 of operand 0 (x) has 8 elements, which do not divide into 3 parts}}
    %0 = "msc.matmul"(%x, %w) {shard = {in_strategy = [[3, 1]], name = "ffn"}} : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32> loc("up")
    "msc.return"(%0) : (tensor<8x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>):
    // expected-error @+1 {{annotation shard = {name = "ffn", strategy = [[4, 1]]} is not supported}}
    %0 = "msc.relu"(%x) {shard = {name = "ffn", strategy = [[4, 1]]}} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("up")
    "msc.return"(%0) : (tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
