// RUN: msc opt --passes=expand --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x6x4xbf16>, %k: tensor<2x2x5x4xbf16>, %v: tensor<2x2x5x3xbf16>, %m: tensor<6x5xbf16>):
    %0 = "msc.attention"(%q, %k, %v, %m) : (tensor<2x4x6x4xbf16>, tensor<2x2x5x4xbf16>, tensor<2x2x5x3xbf16>, tensor<6x5xbf16>) -> tensor<2x4x6x3xbf16>
    "msc.return"(%0) : (tensor<2x4x6x3xbf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x6x4xbf16>, %k: tensor<2x2x5x4xbf16>, %v: tensor<2x2x5x3xbf16>, %m: tensor<6x5xbf16>):
    %0 = "msc.reshape"(%q) {shape = [2, 2, 12, 4]} : (tensor<2x4x6x4xbf16>) -> tensor<2x2x12x4xbf16>
    %1 = "msc.batch_matmul"(%0, %k) {transpose_b = true} : (tensor<2x2x12x4xbf16>, tensor<2x2x5x4xbf16>) -> tensor<2x2x12x5xbf16>
    %2 = "msc.cast"(%1) {dtype = "f32"} : (tensor<2x2x12x5xbf16>) -> tensor<2x2x12x5xf32>
    %3 = "msc.reshape"(%2) {shape = [2, 4, 6, 5]} : (tensor<2x2x12x5xf32>) -> tensor<2x4x6x5xf32>
    %4 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.mul"(%3, %4) : (tensor<2x4x6x5xf32>, tensor<f32>) -> tensor<2x4x6x5xf32>
    %6 = "msc.cast"(%m) {dtype = "f32"} : (tensor<6x5xbf16>) -> tensor<6x5xf32>
    %7 = "msc.add"(%5, %6) : (tensor<2x4x6x5xf32>, tensor<6x5xf32>) -> tensor<2x4x6x5xf32>
    %8 = "msc.softmax"(%7) : (tensor<2x4x6x5xf32>) -> tensor<2x4x6x5xf32>
    %9 = "msc.cast"(%8) {dtype = "bf16"} : (tensor<2x4x6x5xf32>) -> tensor<2x4x6x5xbf16>
    %10 = "msc.reshape"(%9) {shape = [2, 2, 12, 5]} : (tensor<2x4x6x5xbf16>) -> tensor<2x2x12x5xbf16>
    %11 = "msc.batch_matmul"(%10, %v) : (tensor<2x2x12x5xbf16>, tensor<2x2x5x3xbf16>) -> tensor<2x2x12x3xbf16>
    %12 = "msc.reshape"(%11) {shape = [2, 4, 6, 3]} : (tensor<2x2x12x3xbf16>) -> tensor<2x4x6x3xbf16>
    "msc.return"(%12) : (tensor<2x4x6x3xbf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
