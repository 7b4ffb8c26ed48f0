// RUN: msc opt --passes=variance --check-numerics %s
// The statistics of a norm over a batch, with channels last.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x8x8x4xbf16>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<32x8x8x4xbf16>) -> tensor<32x8x8x4xf32>
    %1 = "msc.reduce_mean"(%0) {count = 2048 : i64, dims = [0, 1, 2], keep_dims = true} : (tensor<32x8x8x4xf32>) -> tensor<1x1x1x4xf32> loc("norm")
    %2 = "msc.sub"(%0, %1) : (tensor<32x8x8x4xf32>, tensor<1x1x1x4xf32>) -> tensor<32x8x8x4xf32>
    %3 = "msc.mul"(%2, %2) : (tensor<32x8x8x4xf32>, tensor<32x8x8x4xf32>) -> tensor<32x8x8x4xf32>
    %4 = "msc.reduce_mean"(%3) {count = 2048 : i64, dims = [0, 1, 2], keep_dims = true} : (tensor<32x8x8x4xf32>) -> tensor<1x1x1x4xf32>
    %5 = "msc.rsqrt"(%4) : (tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32>
    %6 = "msc.mul"(%2, %5) : (tensor<32x8x8x4xf32>, tensor<1x1x1x4xf32>) -> tensor<32x8x8x4xf32>
    "msc.return"(%6, %1, %4) : (tensor<32x8x8x4xf32>, tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x8x8x4xbf16>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<32x8x8x4xbf16>) -> tensor<32x8x8x4xf32>
    %1 = "msc.slice"(%x) {limit = [1, 1, 1, 4], start = [0, 0, 0, 0]} : (tensor<32x8x8x4xbf16>) -> tensor<1x1x1x4xbf16> loc("norm")
    %2 = "msc.cast"(%1) {dtype = "f32"} : (tensor<1x1x1x4xbf16>) -> tensor<1x1x1x4xf32> loc("norm")
    %3 = "msc.sub"(%0, %2) : (tensor<32x8x8x4xf32>, tensor<1x1x1x4xf32>) -> tensor<32x8x8x4xf32> loc("norm")
    %4 = "msc.reduce_mean"(%3) {count = 2048 : i64, dims = [0, 1, 2], keep_dims = true} : (tensor<32x8x8x4xf32>) -> tensor<1x1x1x4xf32> loc("norm")
    %5 = "msc.mul"(%3, %3) : (tensor<32x8x8x4xf32>, tensor<32x8x8x4xf32>) -> tensor<32x8x8x4xf32> loc("norm")
    %6 = "msc.reduce_mean"(%5) {count = 2048 : i64, dims = [0, 1, 2], keep_dims = true} : (tensor<32x8x8x4xf32>) -> tensor<1x1x1x4xf32> loc("norm")
    %7 = "msc.add"(%2, %4) : (tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32> loc("norm")
    %8 = "msc.mul"(%4, %4) : (tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32> loc("norm")
    %9 = "msc.sub"(%6, %8) : (tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32> loc("norm")
    %10 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32> loc("norm")
    %11 = "msc.max"(%9, %10) : (tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32> loc("norm")
    %12 = "msc.sub"(%0, %7) : (tensor<32x8x8x4xf32>, tensor<1x1x1x4xf32>) -> tensor<32x8x8x4xf32>
    %13 = "msc.rsqrt"(%11) : (tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32>
    %14 = "msc.mul"(%12, %13) : (tensor<32x8x8x4xf32>, tensor<1x1x1x4xf32>) -> tensor<32x8x8x4xf32>
    "msc.return"(%14, %7, %11) : (tensor<32x8x8x4xf32>, tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
