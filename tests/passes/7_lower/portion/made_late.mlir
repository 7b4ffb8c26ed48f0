// RUN: msc opt --passes=portion --set score_portions=2 --check-numerics %s
// What the last product reads is made behind the place where portions could stand: nothing is cut.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x6xbf16>, %w: tensor<6x8xbf16>, %labels: tensor<4x3xi32>, %scale: tensor<f32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<4x3x6xbf16>, tensor<6x8xbf16>) -> tensor<4x3x8xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<4x3x8xbf16>) -> tensor<4x3x8xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %labels) {count = 12 : i64, whole = 8 : i64} : (tensor<4x3x8xf32>, tensor<4x3xi32>) -> tensor<f32>
    %3 = "msc.softmax_cross_entropy_grad"(%1, %labels, %scale) {count = 12 : i64, whole = 8 : i64} : (tensor<4x3x8xf32>, tensor<4x3xi32>, tensor<f32>) -> tensor<4x3x8xf32>
    %4 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<4x3x8xf32>) -> tensor<4x3x8xbf16>
    %5 = "msc.gemm"(%4, %w) {transpose_b = true} : (tensor<4x3x8xbf16>, tensor<6x8xbf16>) -> tensor<4x3x6xbf16>
    %6 = "msc.mul"(%5, %x) : (tensor<4x3x6xbf16>, tensor<4x3x6xbf16>) -> tensor<4x3x6xbf16>
    %7 = "msc.reshape"(%6) {shape = [12, 6]} : (tensor<4x3x6xbf16>) -> tensor<12x6xbf16>
    %8 = "msc.reshape"(%4) {shape = [12, 8]} : (tensor<4x3x8xbf16>) -> tensor<12x8xbf16>
    %9 = "msc.gemm"(%7, %8) {dtype = "f32", transpose_a = true} : (tensor<12x6xbf16>, tensor<12x8xbf16>) -> tensor<6x8xf32>
    "msc.return"(%2, %6, %9) : (tensor<f32>, tensor<4x3x6xbf16>, tensor<6x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"},
                   {msc.name = "scale", msc.role = "state"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, -1, -1]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x6xbf16>, %w: tensor<6x8xbf16>, %labels: tensor<4x3xi32>, %scale: tensor<f32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<4x3x6xbf16>, tensor<6x8xbf16>) -> tensor<4x3x8xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<4x3x8xbf16>) -> tensor<4x3x8xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %labels) {count = 12 : i64, whole = 8 : i64} : (tensor<4x3x8xf32>, tensor<4x3xi32>) -> tensor<f32>
    %3 = "msc.softmax_cross_entropy_grad"(%1, %labels, %scale) {count = 12 : i64, whole = 8 : i64} : (tensor<4x3x8xf32>, tensor<4x3xi32>, tensor<f32>) -> tensor<4x3x8xf32>
    %4 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<4x3x8xf32>) -> tensor<4x3x8xbf16>
    %5 = "msc.gemm"(%4, %w) {transpose_b = true} : (tensor<4x3x8xbf16>, tensor<6x8xbf16>) -> tensor<4x3x6xbf16>
    %6 = "msc.mul"(%5, %x) : (tensor<4x3x6xbf16>, tensor<4x3x6xbf16>) -> tensor<4x3x6xbf16>
    %7 = "msc.reshape"(%6) {shape = [12, 6]} : (tensor<4x3x6xbf16>) -> tensor<12x6xbf16>
    %8 = "msc.reshape"(%4) {shape = [12, 8]} : (tensor<4x3x8xbf16>) -> tensor<12x8xbf16>
    %9 = "msc.gemm"(%7, %8) {dtype = "f32", transpose_a = true} : (tensor<12x6xbf16>, tensor<12x8xbf16>) -> tensor<6x8xf32>
    "msc.return"(%2, %6, %9) : (tensor<f32>, tensor<4x3x6xbf16>, tensor<6x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"},
                   {msc.name = "scale", msc.role = "state"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, -1, -1]} : () -> ()
}
