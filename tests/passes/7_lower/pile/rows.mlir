// RUN: msc opt --passes=pile --check-numerics %s
// The bias of a layer that four steps share: its gradient sums the rows that the weight's gradient has together, which now stand before it.
module {
  "msc.func"() ({
  ^bb0(%a0: tensor<2x8xf32>, %a1: tensor<2x8xf32>, %a2: tensor<2x8xf32>, %a3: tensor<2x8xf32>, %b0: tensor<2x6xf32>, %b1: tensor<2x6xf32>, %b2: tensor<2x6xf32>, %b3: tensor<2x6xf32>, %c: tensor<8xf32>):
    %0 = "msc.reduce_sum"(%a0) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %1 = "msc.reduce_sum"(%a1) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %2 = "msc.reduce_sum"(%a2) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %3 = "msc.reduce_sum"(%a3) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %4 = "msc.add"(%0, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.add"(%4, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %6 = "msc.add"(%5, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %7 = "msc.add"(%6, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %8 = "msc.neg"(%7) : (tensor<8xf32>) -> tensor<8xf32>
    %9 = "msc.matmul"(%a0, %b0) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %10 = "msc.matmul"(%a1, %b1) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %11 = "msc.matmul"(%a2, %b2) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %12 = "msc.matmul"(%a3, %b3) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %13 = "msc.add"(%9, %10) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %14 = "msc.add"(%13, %11) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %15 = "msc.add"(%14, %12) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%8, %15) : (tensor<8xf32>, tensor<8x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a0: tensor<2x8xf32>, %a1: tensor<2x8xf32>, %a2: tensor<2x8xf32>, %a3: tensor<2x8xf32>, %b0: tensor<2x6xf32>, %b1: tensor<2x6xf32>, %b2: tensor<2x6xf32>, %b3: tensor<2x6xf32>, %c: tensor<8xf32>):
    %0 = "msc.concat"(%a1, %a0, %a2, %a3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %2 = "msc.reduce_sum"(%1) {blocks = 2 : i64, dims = [0]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %3 = "msc.add"(%2, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %4 = "msc.neg"(%3) : (tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.concat"(%b1, %b0, %b2, %b3) {dim = 1 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x24xf32>
    %6 = "msc.reshape"(%5) {shape = [8, 6]} : (tensor<2x24xf32>) -> tensor<8x6xf32>
    %7 = "msc.matmul"(%1, %6) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%4, %7) : (tensor<8xf32>, tensor<8x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
