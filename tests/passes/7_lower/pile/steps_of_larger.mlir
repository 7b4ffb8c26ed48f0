// RUN: msc opt --passes=pile --check-numerics %s
// A larger operand than the rows would have to be turned: its product goes on reading the steps.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xf32>, %g0: tensor<2x8xf32>, %g1: tensor<2x8xf32>, %g2: tensor<2x8xf32>, %g3: tensor<2x8xf32>, %h0: tensor<2x8xf32>, %h1: tensor<2x8xf32>, %h2: tensor<2x8xf32>, %h3: tensor<2x8xf32>, %v: tensor<8x9xf32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 6]} : (tensor<4x2x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.matmul"(%g0, %h0) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.matmul"(%g1, %h1) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %4 = "msc.matmul"(%g2, %h2) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %5 = "msc.matmul"(%g3, %h3) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %6 = "msc.add"(%5, %4) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "msc.add"(%6, %3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %8 = "msc.add"(%7, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %9 = "msc.reduce_sum"(%g0) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %10 = "msc.reduce_sum"(%g1) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %11 = "msc.reduce_sum"(%g2) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %12 = "msc.reduce_sum"(%g3) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %13 = "msc.add"(%12, %11) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %14 = "msc.add"(%13, %10) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %15 = "msc.add"(%14, %9) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %16 = "msc.reshape"(%g0) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %17 = "msc.reshape"(%g1) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %18 = "msc.reshape"(%g2) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %19 = "msc.reshape"(%g3) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %20 = "msc.concat"(%16, %17, %18, %19) {dim = 0 : i64} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<4x2x8xf32>
    %21 = "msc.reduce_sum"(%20) {blocks = 4 : i64, dims = [0, 1]} : (tensor<4x2x8xf32>) -> tensor<8xf32>
    %22 = "msc.reshape"(%20) {shape = [8, 8]} : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
    %23 = "msc.matmul"(%22, %1) {blocks = 8 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %24 = "msc.matmul"(%v, %22) {blocks = 8 : i64, transpose_a = true} : (tensor<8x9xf32>, tensor<8x8xf32>) -> tensor<9x8xf32>
    "msc.return"(%8, %15, %21, %23, %24) : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x6xf32>, tensor<9x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xf32>, %g0: tensor<2x8xf32>, %g1: tensor<2x8xf32>, %g2: tensor<2x8xf32>, %g3: tensor<2x8xf32>, %h0: tensor<2x8xf32>, %h1: tensor<2x8xf32>, %h2: tensor<2x8xf32>, %h3: tensor<2x8xf32>, %v: tensor<8x9xf32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 6]} : (tensor<4x2x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.concat"(%g0, %g1, %g2, %g3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %3 = "msc.reshape"(%2) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %4 = "msc.concat"(%h0, %h1, %h2, %h3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %5 = "msc.reshape"(%4) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %6 = "msc.matmul"(%3, %5) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "msc.reduce_sum"(%3) {blocks = 2 : i64, dims = [0]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %8 = "msc.reshape"(%g0) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %9 = "msc.reshape"(%g1) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %10 = "msc.reshape"(%g2) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %11 = "msc.reshape"(%g3) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %12 = "msc.concat"(%8, %9, %10, %11) {dim = 0 : i64} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<4x2x8xf32>
    %13 = "msc.reshape"(%12) {shape = [8, 8]} : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
    %14 = "msc.reshape"(%x) {shape = [8, 6]} : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
    %15 = "msc.matmul"(%3, %14) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %16 = "msc.matmul"(%v, %13) {blocks = 8 : i64, transpose_a = true} : (tensor<8x9xf32>, tensor<8x8xf32>) -> tensor<9x8xf32>
    "msc.return"(%6, %7, %7, %15, %16) : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x6xf32>, tensor<9x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
