// RUN: msc opt --passes=epilogue --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %v: tensor<8x8xf32>, %u: tensor<8x8xf32>):
    %0 = "msc.gemm"(%x, %w) {relu = true} : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %1 = "msc.gemm"(%0, %v) : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
    %2 = "msc.gelu"(%1) {form = "tanh"} : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %3 = "msc.gemm"(%2, %u) : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
    %4 = "msc.reduce_sum"(%3) {blocks = 8 : i64, dims = [0, 1]} : (tensor<6x8xf32>) -> tensor<f32>
    %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.broadcast_to"(%5) {shape = [6, 8]} : (tensor<f32>) -> tensor<6x8xf32>
    %7 = "msc.gemm"(%6, %u) {transpose_b = true} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
    %8 = "msc.gemm"(%2, %6) {transpose_a = true} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
    %9 = "msc.mul"(%1, %1) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %10 = "msc.constant"() {value = dense<4.4715e-02> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.mul"(%9, %10) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %12 = "msc.add"(%11, %5) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %13 = "msc.constant"() {value = dense<7.978846e-01> : tensor<f32>} : () -> tensor<f32>
    %14 = "msc.mul"(%1, %13) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %15 = "msc.mul"(%14, %12) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %16 = "msc.tanh"(%15) : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %17 = "msc.constant"() {value = dense<1.34145e-01> : tensor<f32>} : () -> tensor<f32>
    %18 = "msc.mul"(%9, %17) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %19 = "msc.add"(%18, %5) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %20 = "msc.mul"(%19, %13) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %21 = "msc.mul"(%16, %16) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %22 = "msc.sub"(%5, %21) : (tensor<f32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %23 = "msc.mul"(%1, %22) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %24 = "msc.mul"(%23, %20) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %25 = "msc.add"(%16, %5) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %26 = "msc.add"(%25, %24) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %27 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %28 = "msc.mul"(%26, %27) : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %29 = "msc.mul"(%7, %28) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %30 = "msc.gemm"(%29, %v) {transpose_b = true} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
    %31 = "msc.gemm"(%0, %29) {transpose_a = true} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
    %32 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %33 = "msc.compare"(%0, %32) {predicate = "gt"} : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xi1>
    %34 = "msc.select"(%33, %30, %32) : (tensor<6x8xi1>, tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
    %35 = "msc.gemm"(%x, %34) {transpose_a = true} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%4, %35, %31, %8) : (tensor<f32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %v: tensor<8x8xf32>, %u: tensor<8x8xf32>):
    %0:2 = "msc.gemm"(%x, %w) {gives = "aux", relu = true} : (tensor<6x4xf32>, tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<6x16xui8>)
    %1:2 = "msc.gemm"(%0#0, %v) {gelu = true, gives = "aux"} : (tensor<6x8xf32>, tensor<8x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>)
    %2 = "msc.gemm"(%1#0, %u) : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
    %3 = "msc.reduce_sum"(%2) {blocks = 8 : i64, dims = [0, 1]} : (tensor<6x8xf32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.broadcast_to"(%4) {shape = [6, 8]} : (tensor<f32>) -> tensor<6x8xf32>
    %6 = "msc.gemm"(%1#0, %5) {transpose_a = true} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
    %7 = "msc.gemm"(%5, %u, %1#1) {gelu = true, slope = true, takes = "aux", transpose_b = true} : (tensor<6x8xf32>, tensor<8x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %8 = "msc.gemm"(%0#0, %7) {transpose_a = true} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
    %9 = "msc.gemm"(%7, %v, %0#1) {relu = true, slope = true, takes = "aux", transpose_b = true} : (tensor<6x8xf32>, tensor<8x8xf32>, tensor<6x16xui8>) -> tensor<6x8xf32>
    %10 = "msc.gemm"(%x, %9) {transpose_a = true} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%3, %10, %8, %6) : (tensor<f32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
