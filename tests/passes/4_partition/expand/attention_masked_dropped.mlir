// RUN: msc opt --passes=expand --check-numerics %s
// A mask and dropout together: no library's attention, but products.
module attributes {msc.mesh = #msc.mesh<"dp=2">, msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x4x5x8xbf16>, %v: tensor<2x4x5x8xbf16>, %keep: tensor<2x4x5x5xbf16>, %m: tensor<2x1x1x5xbf16>):
    %0 = "msc.dropped_attention"(%q, %k, %v, %keep, %m) : (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x5xbf16>, tensor<2x1x1x5xbf16>) -> tensor<2x4x5x8xbf16>
    "msc.return"(%0) : (tensor<2x4x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">, msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x4x5x8xbf16>, %v: tensor<2x4x5x8xbf16>, %keep: tensor<2x4x5x5xbf16>, %m: tensor<2x1x1x5xbf16>):
    %0 = "msc.batch_matmul"(%q, %k) {transpose_b = true} : (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>) -> tensor<2x4x5x5xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<2x4x5x5xbf16>) -> tensor<2x4x5x5xf32>
    %2 = "msc.constant"() {value = dense<3.5355338e-01> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.mul"(%1, %2) : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
    %4 = "msc.cast"(%m) {dtype = "f32"} : (tensor<2x1x1x5xbf16>) -> tensor<2x1x1x5xf32>
    %5 = "msc.add"(%3, %4) : (tensor<2x4x5x5xf32>, tensor<2x1x1x5xf32>) -> tensor<2x4x5x5xf32>
    %6 = "msc.softmax"(%5) : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
    %7 = "msc.cast"(%keep) {dtype = "f32"} : (tensor<2x4x5x5xbf16>) -> tensor<2x4x5x5xf32>
    %8 = "msc.mul"(%6, %7) : (tensor<2x4x5x5xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
    %9 = "msc.cast"(%8) {dtype = "bf16"} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xbf16>
    %10 = "msc.batch_matmul"(%9, %v) : (tensor<2x4x5x5xbf16>, tensor<2x4x5x8xbf16>) -> tensor<2x4x5x8xbf16>
    "msc.return"(%10) : (tensor<2x4x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
