// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --set enable_alltoall=false --from=strategies --until=redistribute --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>):
    %0 = "msc.relu"(%x) {in_strategy = [[4, 1]]} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("rows")
    %1 = "msc.tanh"(%0) {in_strategy = [[1, 4]]} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("columns")
    "msc.return"(%1) : (tensor<8x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.relu"(%x) {by = "user"} : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{d},{}]">> loc("rows")
    %1 = "msc.all_gather"(%0) : (tensor<8x8xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{}]">> loc("columns")
    %2 = "msc.shard"(%1) : (tensor<8x8xf32, #msc.layout<"[{},{}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("columns")
    %3 = "msc.tanh"(%2) {by = "user", conflicts = [{by = "rows", dim = 1 : i64, here = "{d}", there = "{}", value = "rows"}]} : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> tensor<8x8xf32, #msc.layout<"[{},{d}]">> loc("columns")
    "msc.return"(%3) {in_layout = ["[{},{d}]"]} : (tensor<8x8xf32, #msc.layout<"[{},{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
