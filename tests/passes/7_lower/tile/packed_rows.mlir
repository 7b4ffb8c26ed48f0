// RUN: msc opt --passes=tile --check-numerics %s
// Of a transposed a with many terms, few rows are packed together: they stay in the level-2 cache.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4096x256xf32>, %w: tensor<4096x2xf32>):
    %0 = "msc.gemm"(%x, %w) {transpose_a = true} : (tensor<4096x256xf32>, tensor<4096x2xf32>) -> tensor<256x2xf32> loc("grad")
    %1 = "msc.tanh"(%0) : (tensor<256x2xf32>) -> tensor<256x2xf32>
    "msc.return"(%1) : (tensor<256x2xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4096x256xf32>, %w: tensor<4096x2xf32>):
    %0 = "msc.gemm"(%x, %w) {tile = 48 : i64, transpose_a = true} : (tensor<4096x256xf32>, tensor<4096x2xf32>) -> tensor<256x2xf32> loc("grad")
    %1 = "msc.tanh"(%0) : (tensor<256x2xf32>) -> tensor<256x2xf32>
    "msc.return"(%1) : (tensor<256x2xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
