// RUN: msc opt --passes=tile %s
// Fewer rows than four tiles multiply together, of f32 by generated code: a tile has all of them, and a share of the
// columns, so that b is read once, however large. Not so with more rows, a transposed a, bf16, or few columns.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<16x128xf32>, %w: tensor<128x512xf32>, %two: tensor<2x1024xf32>, %far: tensor<4096x1024xf32>, %more: tensor<32x128xf32>, %y: tensor<128x16xf32>, %h: tensor<16x128xbf16>, %v: tensor<128x512xbf16>, %narrow: tensor<128x128xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true} : (tensor<16x128xf32>, tensor<128x512xf32>) -> tensor<16x512xf32>
    %1 = "msc.tanh"(%0) : (tensor<16x512xf32>) -> tensor<16x512xf32>
    %2 = "msc.gemm"(%two, %far) {generated = true, transpose_b = true} : (tensor<2x1024xf32>, tensor<4096x1024xf32>) -> tensor<2x4096xf32>
    %3 = "msc.tanh"(%2) : (tensor<2x4096xf32>) -> tensor<2x4096xf32>
    %4 = "msc.gemm"(%more, %w) {generated = true} : (tensor<32x128xf32>, tensor<128x512xf32>) -> tensor<32x512xf32>
    %5 = "msc.tanh"(%4) : (tensor<32x512xf32>) -> tensor<32x512xf32>
    %6 = "msc.gemm"(%y, %w) {generated = true, transpose_a = true} : (tensor<128x16xf32>, tensor<128x512xf32>) -> tensor<16x512xf32>
    %7 = "msc.tanh"(%6) : (tensor<16x512xf32>) -> tensor<16x512xf32>
    %8 = "msc.gemm"(%h, %v) {generated = true} : (tensor<16x128xbf16>, tensor<128x512xbf16>) -> tensor<16x512xbf16>
    %9 = "msc.tanh"(%8) : (tensor<16x512xbf16>) -> tensor<16x512xbf16>
    %10 = "msc.gemm"(%x, %narrow) {generated = true} : (tensor<16x128xf32>, tensor<128x128xf32>) -> tensor<16x128xf32>
    %11 = "msc.tanh"(%10) : (tensor<16x128xf32>) -> tensor<16x128xf32>
    %12 = "msc.gemm"(%x, %w) : (tensor<16x128xf32>, tensor<128x512xf32>) -> tensor<16x512xf32>
    %13 = "msc.neg"(%12) : (tensor<16x512xf32>) -> tensor<16x512xf32>
    "msc.return"(%1, %3, %5, %7, %9, %11, %13) : (tensor<16x512xf32>, tensor<2x4096xf32>, tensor<32x512xf32>, tensor<16x512xf32>, tensor<16x512xbf16>, tensor<16x128xf32>, tensor<16x512xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<16x128xf32>, %w: tensor<128x512xf32>, %two: tensor<2x1024xf32>, %far: tensor<4096x1024xf32>, %more: tensor<32x128xf32>, %y: tensor<128x16xf32>, %h: tensor<16x128xbf16>, %v: tensor<128x512xbf16>, %narrow: tensor<128x128xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true, tile = 16 : i64, tile_columns = 128 : i64} : (tensor<16x128xf32>, tensor<128x512xf32>) -> tensor<16x512xf32>
    %1 = "msc.tanh"(%0) : (tensor<16x512xf32>) -> tensor<16x512xf32>
    %2 = "msc.gemm"(%two, %far) {generated = true, tile = 2 : i64, tile_columns = 1024 : i64, transpose_b = true} : (tensor<2x1024xf32>, tensor<4096x1024xf32>) -> tensor<2x4096xf32>
    %3 = "msc.tanh"(%2) : (tensor<2x4096xf32>) -> tensor<2x4096xf32>
    %4 = "msc.gemm"(%more, %w) {generated = true, tile = 8 : i64} : (tensor<32x128xf32>, tensor<128x512xf32>) -> tensor<32x512xf32>
    %5 = "msc.tanh"(%4) : (tensor<32x512xf32>) -> tensor<32x512xf32>
    %6 = "msc.gemm"(%y, %w) {generated = true, tile = 4 : i64, transpose_a = true} : (tensor<128x16xf32>, tensor<128x512xf32>) -> tensor<16x512xf32>
    %7 = "msc.tanh"(%6) : (tensor<16x512xf32>) -> tensor<16x512xf32>
    %8 = "msc.gemm"(%h, %v) {generated = true, tile = 4 : i64} : (tensor<16x128xbf16>, tensor<128x512xbf16>) -> tensor<16x512xbf16>
    %9 = "msc.tanh"(%8) : (tensor<16x512xbf16>) -> tensor<16x512xbf16>
    %10 = "msc.gemm"(%x, %narrow) {generated = true, tile = 4 : i64} : (tensor<16x128xf32>, tensor<128x128xf32>) -> tensor<16x128xf32>
    %11 = "msc.tanh"(%10) : (tensor<16x128xf32>) -> tensor<16x128xf32>
    %12 = "msc.gemm"(%x, %w) {tile = 4 : i64} : (tensor<16x128xf32>, tensor<128x512xf32>) -> tensor<16x512xf32>
    %13 = "msc.neg"(%12) : (tensor<16x512xf32>) -> tensor<16x512xf32>
    "msc.return"(%1, %3, %5, %7, %9, %11, %13) : (tensor<16x512xf32>, tensor<2x4096xf32>, tensor<32x512xf32>, tensor<16x512xf32>, tensor<16x512xbf16>, tensor<16x128xf32>, tensor<16x512xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
