// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=strategies %s
module {
  "msc.func"() ({
  ^bb0(%a: tensor<16x64xf32>, %at: tensor<64x16xf32>, %b: tensor<64x32xf32>, %bt: tensor<32x64xf32>, %c: tensor<4x64x16xf32>, %d: tensor<4x32x64xf32>):
    %0 = "msc.matmul"(%a, %b) {in_strategy = [[2, 4], [4, 1]]} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc("plain")
    %1 = "msc.matmul"(%at, %b) {in_strategy = [[4, 2], [4, 1]], transpose_a = true} : (tensor<64x16xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc("first")
    %2 = "msc.matmul"(%a, %bt) {in_strategy = [[2, 4], [1, 4]], transpose_b = true} : (tensor<16x64xf32>, tensor<32x64xf32>) -> tensor<16x32xf32> loc("second")
    %3 = "msc.matmul"(%at, %bt) {in_strategy = [[4, 2], [1, 4]], transpose_a = true, transpose_b = true} : (tensor<64x16xf32>, tensor<32x64xf32>) -> tensor<16x32xf32> loc("both")
    %4 = "msc.batch_matmul"(%c, %d) {in_strategy = [[2, 2, 2], [2, 1, 2]], transpose_a = true, transpose_b = true} : (tensor<4x64x16xf32>, tensor<4x32x64xf32>) -> tensor<4x16x32xf32> loc("batch")
    "msc.return"(%0, %1, %2, %3, %4) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<4x16x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "at", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "bt", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "data"},
                   {msc.name = "d", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%a: tensor<16x64xf32>, %at: tensor<64x16xf32>, %b: tensor<64x32xf32>, %bt: tensor<32x64xf32>, %c: tensor<4x64x16xf32>, %d: tensor<4x32x64xf32>):
    %0 = "msc.matmul"(%a, %b) {by = "user", in_strategy = [[2, 4], [4, 1]], sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc("plain")
    %1 = "msc.matmul"(%at, %b) {by = "user", in_strategy = [[4, 2], [4, 1]], sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}, transpose_a = true} : (tensor<64x16xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc("first")
    %2 = "msc.matmul"(%a, %bt) {by = "user", in_strategy = [[2, 4], [1, 4]], sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}, transpose_b = true} : (tensor<16x64xf32>, tensor<32x64xf32>) -> tensor<16x32xf32> loc("second")
    %3 = "msc.matmul"(%at, %bt) {by = "user", in_strategy = [[4, 2], [1, 4]], sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}, transpose_a = true, transpose_b = true} : (tensor<64x16xf32>, tensor<32x64xf32>) -> tensor<16x32xf32> loc("both")
    %4 = "msc.batch_matmul"(%c, %d) {by = "user", in_strategy = [[2, 2, 2], [2, 1, 2]], sharding = {A = "{d:(1)2}", k = "{d:(4)2}", m = "{d:(2)2}", n = "{}"}, transpose_a = true, transpose_b = true} : (tensor<4x64x16xf32>, tensor<4x32x64xf32>) -> tensor<4x16x32xf32> loc("batch")
    "msc.return"(%0, %1, %2, %3, %4) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<4x16x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "at", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "bt", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "data"},
                   {msc.name = "d", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
