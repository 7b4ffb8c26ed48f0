// RUN: msc opt --passes=pile --check-numerics %s
// As `steps`, where the gradients of the weights before and behind the steps are ops that sum over two dimensions.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xf32>, %g0: tensor<2x8xf32>, %g1: tensor<2x8xf32>, %g2: tensor<2x8xf32>, %g3: tensor<2x8xf32>, %h0: tensor<2x8xf32>, %h1: tensor<2x8xf32>, %h2: tensor<2x8xf32>, %h3: tensor<2x8xf32>, %u: tensor<4x2x5xf32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
    %1 = "msc.matmul"(%g0, %h0) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.matmul"(%g1, %h1) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.matmul"(%g2, %h2) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %4 = "msc.matmul"(%g3, %h3) {blocks = 2 : i64, transpose_a = true} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %5 = "msc.add"(%4, %3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = "msc.add"(%5, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "msc.add"(%6, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %8 = "msc.reduce_sum"(%g0) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %9 = "msc.reduce_sum"(%g1) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %10 = "msc.reduce_sum"(%g2) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %11 = "msc.reduce_sum"(%g3) {blocks = 2 : i64, dims = [0]} : (tensor<2x8xf32>) -> tensor<8xf32>
    %12 = "msc.add"(%11, %10) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %13 = "msc.add"(%12, %9) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %14 = "msc.add"(%13, %8) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %15 = "msc.reshape"(%g0) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %16 = "msc.reshape"(%g1) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %17 = "msc.reshape"(%g2) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %18 = "msc.reshape"(%g3) {shape = [1, 2, 8]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %19 = "msc.concat"(%15, %16, %17, %18) {dim = 0 : i64} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<4x2x8xf32>
    %20 = "msc.reduce_sum"(%19) {blocks = 4 : i64, dims = [0, 1]} : (tensor<4x2x8xf32>) -> tensor<8xf32>
    %21 = "msc.matmul_weight_grad"(%19, %0) {blocks = 8 : i64} : (tensor<4x2x8xf32>, tensor<4x2x6xf32>) -> tensor<8x6xf32>
    %22 = "msc.matmul_weight_grad"(%u, %19) {blocks = 8 : i64} : (tensor<4x2x5xf32>, tensor<4x2x8xf32>) -> tensor<5x8xf32>
    "msc.return"(%7, %14, %20, %21, %22) : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x6xf32>, tensor<5x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xf32>, %g0: tensor<2x8xf32>, %g1: tensor<2x8xf32>, %g2: tensor<2x8xf32>, %g3: tensor<2x8xf32>, %h0: tensor<2x8xf32>, %h1: tensor<2x8xf32>, %h2: tensor<2x8xf32>, %h3: tensor<2x8xf32>, %u: tensor<4x2x5xf32>):
    %0 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
    %1 = "msc.concat"(%g0, %g1, %g2, %g3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %2 = "msc.reshape"(%1) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %3 = "msc.concat"(%h0, %h1, %h2, %h3) {dim = 1 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x32xf32>
    %4 = "msc.reshape"(%3) {shape = [8, 8]} : (tensor<2x32xf32>) -> tensor<8x8xf32>
    %5 = "msc.matmul"(%2, %4) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = "msc.reduce_sum"(%2) {blocks = 2 : i64, dims = [0]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %7 = "msc.reshape"(%x) {shape = [8, 6]} : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
    %8 = "msc.matmul"(%2, %7) {blocks = 2 : i64, transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %9 = "msc.transpose"(%u) {perm = [1, 0, 2]} : (tensor<4x2x5xf32>) -> tensor<2x4x5xf32>
    %10 = "msc.reshape"(%9) {shape = [8, 5]} : (tensor<2x4x5xf32>) -> tensor<8x5xf32>
    %11 = "msc.matmul"(%10, %2) {blocks = 2 : i64, transpose_a = true} : (tensor<8x5xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
    "msc.return"(%5, %6, %6, %8, %11) : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x6xf32>, tensor<5x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
