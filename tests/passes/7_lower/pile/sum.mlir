// RUN: msc opt --passes=pile --check-numerics %s
// Four steps share a weight of 8x6; the gradients of its use come from two rows each. What is no such product is added behind.
module {
  "msc.func"() ({
  ^bb0(%a0: tensor<2x8xf32>, %a1: tensor<2x8xf32>, %a2: tensor<2x8xf32>, %a3: tensor<2x8xf32>, %b0: tensor<2x6xf32>, %b1: tensor<2x6xf32>, %b2: tensor<2x6xf32>, %b3: tensor<2x6xf32>, %c: tensor<8x6xf32>):
    %0 = "msc.matmul"(%a0, %b0) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%a1, %b1) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.matmul"(%a2, %b2) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.matmul"(%a3, %b3) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %4 = "msc.add"(%0, %1) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %5 = "msc.add"(%4, %c) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %6 = "msc.add"(%5, %2) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %7 = "msc.add"(%6, %3) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%7) : (tensor<8x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a0: tensor<2x8xf32>, %a1: tensor<2x8xf32>, %a2: tensor<2x8xf32>, %a3: tensor<2x8xf32>, %b0: tensor<2x6xf32>, %b1: tensor<2x6xf32>, %b2: tensor<2x6xf32>, %b3: tensor<2x6xf32>, %c: tensor<8x6xf32>):
    %0 = "msc.concat"(%a1, %a0, %a2, %a3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %2 = "msc.concat"(%b1, %b0, %b2, %b3) {dim = 1 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x24xf32>
    %3 = "msc.reshape"(%2) {shape = [8, 6]} : (tensor<2x24xf32>) -> tensor<8x6xf32>
    %4 = "msc.matmul"(%1, %3) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %5 = "msc.add"(%4, %c) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%5) : (tensor<8x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
