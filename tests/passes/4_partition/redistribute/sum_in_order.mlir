// RUN: msc opt --set device_num=4 --set 'mesh={"d":4}' --set parallel_mode=auto_parallel --set search_mode=dynamic_programming --set deterministic=true --from=strategies --until=redistribute --check-numerics %s
// In two steps the sum would be (0+2)+(1+3), and have other bits than on one rank.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x48xf32>, %w: tensor<48x64xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[1, 4], [4, 1]]} : (tensor<32x48xf32>, tensor<48x64xf32>) -> tensor<32x64xf32>
    %1 = "msc.relu"(%0) {in_strategy = [[4, 1]]} : (tensor<32x64xf32>) -> tensor<32x64xf32>
    "msc.return"(%1) : (tensor<32x64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x48xf32, #msc.layout<"[{},{d}]">>, %w: tensor<48x64xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "user"} : (tensor<32x48xf32, #msc.layout<"[{},{d}]">>, tensor<48x64xf32, #msc.layout<"[{d},{}]">>) -> tensor<32x64xf32, #msc.layout<"[{},{}] partial={d}">>
    %1 = "msc.reduce_scatter"(%0) : (tensor<32x64xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<32x64xf32, #msc.layout<"[{d},{}]">>
    %2 = "msc.relu"(%1) {by = "user"} : (tensor<32x64xf32, #msc.layout<"[{d},{}]">>) -> tensor<32x64xf32, #msc.layout<"[{d},{}]">>
    "msc.return"(%2) {in_layout = ["[{d},{}]"]} : (tensor<32x64xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      compared = "whole axes",
      least_plan_ns = 819 : i64,
      least_step_ns = 47878 : i64,
      partitioned = true,
      searched = true,
      step_ns = 47878 : i64,
      sym_name = "forward"} : () -> ()
}
