// RUN: msc opt --passes=tile --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%0: tensor<5x8x4xbf16>, %1: tensor<5x4x16xbf16>, %2: tensor<2x160x4xbf16>, %3: tensor<4x16xbf16>, %4: tensor<5x8x4xf32>, %5: tensor<5x4x16xf32>):
    %6 = "msc.gemm"(%0, %1) {dtype = "f32"} : (tensor<5x8x4xbf16>, tensor<5x4x16xbf16>) -> tensor<5x8x16xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<5x8x16xf32>) -> tensor<5x8x16xbf16>
    %8 = "msc.gemm"(%2, %3) {dtype = "f32"} : (tensor<2x160x4xbf16>, tensor<4x16xbf16>) -> tensor<2x160x16xf32>
    %9 = "msc.cast"(%8) {dtype = "bf16"} : (tensor<2x160x16xf32>) -> tensor<2x160x16xbf16>
    %10 = "msc.gemm"(%4, %5) : (tensor<5x8x4xf32>, tensor<5x4x16xf32>) -> tensor<5x8x16xf32>
    %11 = "msc.neg"(%10) : (tensor<5x8x16xf32>) -> tensor<5x8x16xf32>
    "msc.return"(%7, %9, %11) : (tensor<5x8x16xbf16>, tensor<2x160x16xbf16>, tensor<5x8x16xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%0: tensor<5x8x4xbf16>, %1: tensor<5x4x16xbf16>, %2: tensor<2x160x4xbf16>, %3: tensor<4x16xbf16>, %4: tensor<5x8x4xf32>, %5: tensor<5x4x16xf32>):
    %6 = "msc.gemm"(%0, %1) {dtype = "f32", tile = 8 : i64} : (tensor<5x8x4xbf16>, tensor<5x4x16xbf16>) -> tensor<5x8x16xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<5x8x16xf32>) -> tensor<5x8x16xbf16>
    %8 = "msc.gemm"(%2, %3) {dtype = "f32", tile = 64 : i64} : (tensor<2x160x4xbf16>, tensor<4x16xbf16>) -> tensor<2x160x16xf32>
    %9 = "msc.cast"(%8) {dtype = "bf16"} : (tensor<2x160x16xf32>) -> tensor<2x160x16xbf16>
    %10 = "msc.gemm"(%4, %5) : (tensor<5x8x4xf32>, tensor<5x4x16xf32>) -> tensor<5x8x16xf32>
    %11 = "msc.neg"(%10) : (tensor<5x8x16xf32>) -> tensor<5x8x16xf32>
    "msc.return"(%7, %9, %11) : (tensor<5x8x16xbf16>, tensor<2x160x16xbf16>, tensor<5x8x16xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
