// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x4xf32>} : () -> tensor<8x4xf32>
    %1 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.tanh"(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.gemm"(%2, %v) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %5 = "msc.transpose"(%v) {perm = [1, 0]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %6 = "msc.gemm"(%3, %5) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.mul"(%2, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.sub"(%0, %7) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.mul"(%6, %8) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %10 = "msc.transpose"(%x) {perm = [1, 0]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %11 = "msc.gemm"(%10, %9) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %12 = "msc.sgd"(%w, %11) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%4, %12) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.tanh"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.gemm"(%1, %v) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %4 = "msc.transpose"(%v) {perm = [1, 0]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %5 = "msc.gemm"(%2, %4) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.fused"(%1, %5) ({
    ^bb0(%7: tensor<8x4xf32>, %8: tensor<8x4xf32>):
      %9 = "msc.mul"(%7, %7) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %10 = "msc.constant"() {value = dense<1.0e+00> : tensor<8x4xf32>} : () -> tensor<8x4xf32>
      %11 = "msc.sub"(%10, %9) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %12 = "msc.mul"(%8, %11) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      "msc.yield"(%12) : (tensor<8x4xf32>) -> ()
    }) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %13 = "msc.transpose"(%x) {perm = [1, 0]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %14 = "msc.gemm"(%13, %6) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %15 = "msc.sgd"(%w, %14) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%3, %15) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
