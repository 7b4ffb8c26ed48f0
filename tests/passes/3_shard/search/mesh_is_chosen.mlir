// RUN: msc opt --set device_num=16 --set parallel_mode=auto_parallel --set search_mode=recursive_programming --cluster h100 --passes=strategies,search %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x4096xf32>, %w: tensor<4096x16384xf32>, %v: tensor<16384x4096xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<32x4096xf32>, tensor<4096x16384xf32>) -> tensor<32x16384xf32> loc("up")
    %1 = "msc.relu"(%0) : (tensor<32x16384xf32>) -> tensor<32x16384xf32> loc("relu")
    %2 = "msc.matmul"(%1, %v) : (tensor<32x16384xf32>, tensor<16384x4096xf32>) -> tensor<32x4096xf32> loc("down")
    "msc.return"(%2) : (tensor<32x4096xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"x=2,y=2,z=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x4096xf32>, %w: tensor<4096x16384xf32>, %v: tensor<16384x4096xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "search", sharding = {k = "{}", m = "{}", n = "{y,z}"}} : (tensor<32x4096xf32>, tensor<4096x16384xf32>) -> tensor<32x16384xf32> loc("up")
    %1 = "msc.relu"(%0) {by = "search", sharding = {A = "{}", B = "{y,z}"}} : (tensor<32x16384xf32>) -> tensor<32x16384xf32> loc("relu")
    %2 = "msc.matmul"(%1, %v) {by = "search", sharding = {k = "{y,z}", m = "{}", n = "{}"}} : (tensor<32x16384xf32>, tensor<16384x4096xf32>) -> tensor<32x4096xf32> loc("down")
    "msc.return"(%2) : (tensor<32x4096xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      least_plan_ns = 8012 : i64,
      least_step_ns = 0 : i64,
      searched = true,
      step_ns = 46543 : i64,
      sym_name = "forward"} : () -> ()
}
