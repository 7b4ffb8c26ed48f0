// RUN: msc opt --passes=localize %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>):
    %0 = "msc.all_gather"(%x) {axes = "{d}", dim = 0 : i64} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.reduce_scatter"(%0) {axes = "{d}", dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %2 = "msc.all_to_all"(%1) {axes = "{d}", concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x1xf32>) -> tensor<2x4xf32>
    %3 = "msc.all_reduce"(%2) {axes = "{d}", reduction = "max"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = "msc.broadcast"(%3) {axes = "{d}", root = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = "msc.permute"(%4) {axes = "{d}", pairs = [0, 1, 1, 2]} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.send"(%5) {axes = "{d}", from = 0 : i64, to = 3 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %7 = "msc.recv"(%6) {axes = "{d}", from = 0 : i64, to = 3 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    "msc.return"(%7) : (tensor<2x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>):
    %0 = "msc.comm"(%x) {dims = [8, 4], from = ["[{d},{}]"], reduction = "sum", shape = [8, 4], to = ["[{},{}]"], verb = "all_gather"} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.comm"(%0) {dims = [8, 1], from = ["[{},{}] partial={d}"], reduction = "sum", shape = [8, 4], to = ["[{},{d}]"], verb = "reduce_scatter"} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %2 = "msc.comm"(%1) {dims = [2, 4], from = ["[{},{d}]"], reduction = "sum", shape = [8, 4], to = ["[{d},{}]"], verb = "all_to_all"} : (tensor<8x1xf32>) -> tensor<2x4xf32>
    %3 = "msc.comm"(%2) {dims = [2, 4], from = ["[{},{}] partial_max={d}"], reduction = "max", shape = [2, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = "msc.comm"(%3) {axes = "{d}", dims = [2, 4], root = 2 : i64, verb = "broadcast"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = "msc.comm"(%4) {axes = "{d}", dims = [2, 4], pairs = [0, 1, 1, 2], verb = "pairs"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.comm"(%5) {axes = "{d}", dims = [2, 4], pairs = [0, 3], verb = "pairs"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    "msc.return"(%6) : (tensor<2x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      result_layouts = ["[{},{}]"],
      result_shapes = [[2, 4]],
      sym_name = "forward"} : () -> ()
}
