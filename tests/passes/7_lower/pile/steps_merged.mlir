// RUN: msc opt --passes=pile --check-numerics %s
// As `steps`, where the steps are merged with their rows: the concat of the steps is a matrix.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xf32>, %g0: tensor<2x8xf32>, %g1: tensor<2x8xf32>, %g2: tensor<2x8xf32>, %g3: tensor<2x8xf32>, %h0: tensor<2x8xf32>, %h1: tensor<2x8xf32>, %h2: tensor<2x8xf32>, %h3: tensor<2x8xf32>, %u: tensor<8x5xf32>):
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
    %16 = "msc.concat"(%g0, %g1, %g2, %g3) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %17 = "msc.reduce_sum"(%16) {blocks = 8 : i64, dims = [0]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %18 = "msc.matmul"(%16, %1) {blocks = 8 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %19 = "msc.matmul"(%u, %16) {blocks = 8 : i64, transpose_a = true} : (tensor<8x5xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
    "msc.return"(%8, %15, %17, %18, %19) : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x6xf32>, tensor<5x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xf32>, %g0: tensor<2x8xf32>, %g1: tensor<2x8xf32>, %g2: tensor<2x8xf32>, %g3: tensor<2x8xf32>, %h0: tensor<2x8xf32>, %h1: tensor<2x8xf32>, %h2: tensor<2x8xf32>, %h3: tensor<2x8xf32>, %u: tensor<8x5xf32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 6]} : (tensor<4x2x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.concat"(%g0, %g1, %g2, %g3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %3 = "msc.reshape"(%2) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %4 = "msc.concat"(%h0, %h1, %h2, %h3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %5 = "msc.reshape"(%4) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %6 = "msc.matmul"(%3, %5) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "msc.reduce_sum"(%3) {blocks = 2 : i64, dims = [0]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %8 = "msc.reshape"(%x) {shape = [8, 6]} : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
    %9 = "msc.matmul"(%3, %8) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %10 = "msc.reshape"(%u) {shape = [4, 2, 5]} : (tensor<8x5xf32>) -> tensor<4x2x5xf32>
    %11 = "msc.transpose"(%10) {perm = [1, 0, 2]} : (tensor<4x2x5xf32>) -> tensor<2x4x5xf32>
    %12 = "msc.reshape"(%11) {shape = [8, 5]} : (tensor<2x4x5xf32>) -> tensor<8x5xf32>
    %13 = "msc.matmul"(%12, %3) {blocks = 2 : i64, transpose_a = true} : (tensor<8x5xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
    "msc.return"(%6, %7, %7, %9, %13) : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x6xf32>, tensor<5x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
