// RUN: msc opt --passes=narrow --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xbf16>, %w: tensor<4x4xf32>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "msc.mul"(%0, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.cast"(%2) {dtype = "bf16"} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %6 = "msc.mul"(%4, %4) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.mul"(%0, %6) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.matmul"(%7, %0) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %9 = "msc.sgd"(%w, %8) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%5, %9) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xbf16>, %w: tensor<4x4xf32>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "msc.mul"(%0, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.cast"(%2) {dtype = "bf16"} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    %6 = "msc.mul"(%4, %4) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.cast"(%x) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %8 = "msc.mul"(%7, %6) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.matmul"(%8, %7) {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %10 = "msc.sgd"(%w, %9) {lr = 1.0e-01 : f32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%5, %10) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
