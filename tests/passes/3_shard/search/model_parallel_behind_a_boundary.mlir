// RUN: msc opt --set device_num=4 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --from=strategies --until=search --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x8xf32>, %w1: tensor<8x8xf32>, %w2: tensor<8x8xf32>, %w3: tensor<8x8xf32>, %w4: tensor<8x8xf32>, %w5: tensor<8x8xf32>):
    %0 = "msc.matmul"(%x, %w1) : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("first")
    %1 = "msc.matmul"(%0, %w2) {in_strategy = [[4, 1], [1, 1]]} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("last of the first half")
    %2 = "msc.matmul"(%1, %w3) {in_strategy = [[1, 1], [1, 4]]} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("first of the second half")
    %3 = "msc.matmul"(%2, %w4) : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("its digits are used up")
    %4 = "msc.tanh"(%3) : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("free")
    %5 = "msc.matmul"(%4, %w5) : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("not along the batch, and no copy on each device")
    "msc.return"(%5) : (tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter"},
                   {msc.name = "w4", msc.role = "parameter"},
                   {msc.name = "w5", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x8xf32>, %w1: tensor<8x8xf32>, %w2: tensor<8x8xf32>, %w3: tensor<8x8xf32>, %w4: tensor<8x8xf32>, %w5: tensor<8x8xf32>):
    %0 = "msc.matmul"(%x, %w1) {by = "propagation", inherited = [{by = "last of the first half", digits = "{d}"}], sharding = {k = "{}", m = "{d}", n = "{}"}} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("first")
    %1 = "msc.matmul"(%0, %w2) {by = "user", sharding = {k = "{}", m = "{d}", n = "{}"}} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("last of the first half")
    %2 = "msc.matmul"(%1, %w3) {by = "user", sharding = {k = "{}", m = "{}", n = "{d}"}} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("first of the second half")
    %3 = "msc.matmul"(%2, %w4) {by = "propagation", inherited = [{by = "first of the second half", digits = "{d}"}], sharding = {k = "{d}", m = "{}", n = "{}"}} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("its digits are used up")
    %4 = "msc.tanh"(%3) {by = "search", sharding = {A = "{}", B = "{d}"}} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("free")
    %5 = "msc.matmul"(%4, %w5) {by = "search", sharding = {k = "{d}", m = "{}", n = "{}"}} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("not along the batch, and no copy on each device")
    "msc.return"(%5) : (tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter"},
                   {msc.name = "w4", msc.role = "parameter"},
                   {msc.name = "w5", msc.role = "parameter"}],
      least_plan_ns = 170 : i64,
      least_step_ns = 0 : i64,
      searched = true,
      step_ns = 87550 : i64,
      sym_name = "forward"} : () -> ()
}
