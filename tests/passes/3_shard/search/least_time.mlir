// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --cluster h100 --passes=search %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x4096xf32>, %w: tensor<4096x16384xf32>, %b: tensor<16384xf32>, %v: tensor<16384x4096xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<32x4096xf32>, tensor<4096x16384xf32>) -> tensor<32x16384xf32> loc("up")
    %1 = "msc.add"(%0, %b) : (tensor<32x16384xf32>, tensor<16384xf32>) -> tensor<32x16384xf32> loc("bias")
    %2 = "msc.relu"(%1) : (tensor<32x16384xf32>) -> tensor<32x16384xf32> loc("relu")
    %3 = "msc.matmul"(%2, %v) : (tensor<32x16384xf32>, tensor<16384x4096xf32>) -> tensor<32x4096xf32> loc("down")
    "msc.return"(%3) : (tensor<32x4096xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x4096xf32>, %w: tensor<4096x16384xf32>, %b: tensor<16384xf32>, %v: tensor<16384x4096xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "search", sharding = {k = "{}", m = "{}", n = "{dp,tp}"}} : (tensor<32x4096xf32>, tensor<4096x16384xf32>) -> tensor<32x16384xf32> loc("up")
    %1 = "msc.add"(%0, %b) {by = "search", sharding = {A = "{}", B = "{dp,tp}"}} : (tensor<32x16384xf32>, tensor<16384xf32>) -> tensor<32x16384xf32> loc("bias")
    %2 = "msc.relu"(%1) {by = "search", sharding = {A = "{}", B = "{dp,tp}"}} : (tensor<32x16384xf32>) -> tensor<32x16384xf32> loc("relu")
    %3 = "msc.matmul"(%2, %v) {by = "search", sharding = {k = "{dp,tp}", m = "{}", n = "{}"}} : (tensor<32x16384xf32>, tensor<16384x4096xf32>) -> tensor<32x4096xf32> loc("down")
    "msc.return"(%3) : (tensor<32x4096xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      compared = "whole axes",
      least_plan_ns = 16025 : i64,
      least_step_ns = 49543 : i64,
      searched = true,
      step_ns = 49543 : i64,
      sym_name = "forward"} : () -> ()
}
