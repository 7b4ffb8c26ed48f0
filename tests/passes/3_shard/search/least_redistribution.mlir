// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=search %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x64xf32>, %w: tensor<64x128xf32>, %b: tensor<128xf32>, %v: tensor<128x16xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}} : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32> loc("dense1")
    %1 = "msc.add"(%0, %b) : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xf32> loc("bias_add")
    %2 = "msc.relu"(%1) : (tensor<32x128xf32>) -> tensor<32x128xf32> loc("relu")
    %3 = "msc.matmul"(%2, %v) : (tensor<32x128xf32>, tensor<128x16xf32>) -> tensor<32x16xf32> loc("dense2")
    "msc.return"(%3) : (tensor<32x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x64xf32>, %w: tensor<64x128xf32>, %b: tensor<128xf32>, %v: tensor<128x16xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}} : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32> loc("dense1")
    %1 = "msc.add"(%0, %b) {by = "search", sharding = {A = "{d:(1)2}", B = "{d:(2)4}"}} : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xf32> loc("bias_add")
    %2 = "msc.relu"(%1) {by = "search", sharding = {A = "{d:(1)2}", B = "{d:(2)4}"}} : (tensor<32x128xf32>) -> tensor<32x128xf32> loc("relu")
    %3 = "msc.matmul"(%2, %v) {by = "search", sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}} : (tensor<32x128xf32>, tensor<128x16xf32>) -> tensor<32x16xf32> loc("dense2")
    "msc.return"(%3) : (tensor<32x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      least_plan_ns = 1365 : i64,
      least_step_ns = 0 : i64,
      searched = true,
      step_ns = 78156 : i64,
      sym_name = "forward"} : () -> ()
}
