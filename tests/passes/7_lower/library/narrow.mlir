// RUN: msc opt --passes=library --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x5xbf16>, %b: tensor<5x6xbf16>, %c: tensor<4x6xf16>):
    %0 = "msc.matmul"(%a, %b) : (tensor<4x5xbf16>, tensor<5x6xbf16>) -> tensor<4x6xbf16> loc("in f32")
    %1 = "msc.matmul_weight_grad"(%c, %c) : (tensor<4x6xf16>, tensor<4x6xf16>) -> tensor<6x6xf16> loc("too")
    %2 = "msc.matmul"(%a, %b) : (tensor<4x5xbf16>, tensor<5x6xbf16>) -> tensor<4x6xbf16> loc("wanted in f32")
    %3 = "msc.cast"(%2) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    "msc.return"(%0, %1, %3) : (tensor<4x6xbf16>, tensor<6x6xf16>, tensor<4x6xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x5xbf16>, %b: tensor<5x6xbf16>, %c: tensor<4x6xf16>):
    %0 = "msc.cast"(%a) {dtype = "f32"} : (tensor<4x5xbf16>) -> tensor<4x5xf32>
    %1 = "msc.cast"(%b) {dtype = "f32"} : (tensor<5x6xbf16>) -> tensor<5x6xf32>
    %2 = "msc.gemm"(%0, %1) {generated = true} : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32> loc("in f32")
    %3 = "msc.cast"(%2) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %4 = "msc.cast"(%c) {dtype = "f32"} : (tensor<4x6xf16>) -> tensor<4x6xf32>
    %5 = "msc.cast"(%c) {dtype = "f32"} : (tensor<4x6xf16>) -> tensor<4x6xf32>
    %6 = "msc.gemm"(%4, %5) {generated = true, transpose_a = true} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32> loc("too")
    %7 = "msc.cast"(%6) {dtype = "f16"} : (tensor<6x6xf32>) -> tensor<6x6xf16>
    %8 = "msc.cast"(%a) {dtype = "f32"} : (tensor<4x5xbf16>) -> tensor<4x5xf32>
    %9 = "msc.cast"(%b) {dtype = "f32"} : (tensor<5x6xbf16>) -> tensor<5x6xf32>
    %10 = "msc.gemm"(%8, %9) {generated = true} : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32> loc("wanted in f32")
    "msc.return"(%3, %7, %10) : (tensor<4x6xbf16>, tensor<6x6xf16>, tensor<4x6xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
