// RUN: msc opt --passes=tile %s
// Tiles of all columns would have few rows, for each of which a large b is read: those of generated code have fewer
// columns, a library's do not; nor where b stays near, or all columns have rows enough. Few rows are not tiled.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<1024x1024xf32>, %w: tensor<1024x4096xf32>, %few: tensor<1024x256xf32>, %h: tensor<1024x1024xbf16>, %v: tensor<1024x4096xbf16>, %near: tensor<128x1024xf32>, %y: tensor<128x1024xf32>, %rows: tensor<16x1024xbf16>):
    %0 = "msc.gemm"(%x, %w) {generated = true, transpose_a = true} : (tensor<1024x1024xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %1 = "msc.tanh"(%0) : (tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %2 = "msc.gemm"(%x, %w) {transpose_a = true} : (tensor<1024x1024xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %3 = "msc.neg"(%2) : (tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %4 = "msc.gemm"(%x, %few) {generated = true} : (tensor<1024x1024xf32>, tensor<1024x256xf32>) -> tensor<1024x256xf32>
    %5 = "msc.tanh"(%4) : (tensor<1024x256xf32>) -> tensor<1024x256xf32>
    %6 = "msc.gemm"(%h, %v) {dtype = "f32", generated = true} : (tensor<1024x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<1024x4096xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<1024x4096xf32>) -> tensor<1024x4096xbf16>
    %8 = "msc.gemm"(%near, %y) {generated = true, transpose_a = true} : (tensor<128x1024xf32>, tensor<128x1024xf32>) -> tensor<1024x1024xf32>
    %9 = "msc.tanh"(%8) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %10 = "msc.gemm"(%rows, %v) {dtype = "f32", generated = true} : (tensor<16x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<16x4096xf32>
    %11 = "msc.cast"(%10) {dtype = "bf16"} : (tensor<16x4096xf32>) -> tensor<16x4096xbf16>
    "msc.return"(%1, %3, %5, %7, %9, %11) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>, tensor<1024x256xf32>, tensor<1024x4096xbf16>, tensor<1024x1024xf32>, tensor<16x4096xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<1024x1024xf32>, %w: tensor<1024x4096xf32>, %few: tensor<1024x256xf32>, %h: tensor<1024x1024xbf16>, %v: tensor<1024x4096xbf16>, %near: tensor<128x1024xf32>, %y: tensor<128x1024xf32>, %rows: tensor<16x1024xbf16>):
    %0 = "msc.gemm"(%x, %w) {generated = true, tile = 128 : i64, tile_columns = 256 : i64, transpose_a = true} : (tensor<1024x1024xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %1 = "msc.tanh"(%0) : (tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %2 = "msc.gemm"(%x, %w) {transpose_a = true} : (tensor<1024x1024xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %3 = "msc.neg"(%2) : (tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
    %4 = "msc.gemm"(%x, %few) {generated = true, tile = 128 : i64} : (tensor<1024x1024xf32>, tensor<1024x256xf32>) -> tensor<1024x256xf32>
    %5 = "msc.tanh"(%4) : (tensor<1024x256xf32>) -> tensor<1024x256xf32>
    %6 = "msc.gemm"(%h, %v) {dtype = "f32", generated = true, tile = 256 : i64, tile_columns = 512 : i64} : (tensor<1024x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<1024x4096xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<1024x4096xf32>) -> tensor<1024x4096xbf16>
    %8 = "msc.gemm"(%near, %y) {generated = true, tile = 32 : i64, transpose_a = true} : (tensor<128x1024xf32>, tensor<128x1024xf32>) -> tensor<1024x1024xf32>
    %9 = "msc.tanh"(%8) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %10 = "msc.gemm"(%rows, %v) {dtype = "f32", generated = true} : (tensor<16x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<16x4096xf32>
    %11 = "msc.cast"(%10) {dtype = "bf16"} : (tensor<16x4096xf32>) -> tensor<16x4096xbf16>
    "msc.return"(%1, %3, %5, %7, %9, %11) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>, tensor<1024x256xf32>, tensor<1024x4096xbf16>, tensor<1024x1024xf32>, tensor<16x4096xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
