// RUN: msc opt --passes=portion --set memory_limit=1073741824 %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8192x64xbf16>, %w: tensor<64x16384xbf16>, %labels: tensor<8192xi32>, %scale: tensor<f32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8192x64xbf16>, tensor<64x16384xbf16>) -> tensor<8192x16384xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8192x16384xbf16>) -> tensor<8192x16384xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %labels) {count = 8192 : i64, whole = 16384 : i64} : (tensor<8192x16384xf32>, tensor<8192xi32>) -> tensor<f32>
    %3 = "msc.softmax_cross_entropy_grad"(%1, %labels, %scale) {count = 8192 : i64, whole = 16384 : i64} : (tensor<8192x16384xf32>, tensor<8192xi32>, tensor<f32>) -> tensor<8192x16384xf32>
    %4 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<8192x16384xf32>) -> tensor<8192x16384xbf16>
    %5 = "msc.gemm"(%x, %4) {dtype = "f32", transpose_a = true} : (tensor<8192x64xbf16>, tensor<8192x16384xbf16>) -> tensor<64x16384xf32>
    "msc.return"(%2, %5) : (tensor<f32>, tensor<64x16384xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"},
                   {msc.name = "scale", msc.role = "state"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, -1]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8192x64xbf16>, %w: tensor<64x16384xbf16>, %labels: tensor<8192xi32>, %scale: tensor<f32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8192x64xbf16>, tensor<64x16384xbf16>) -> tensor<8192x16384xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8192x16384xbf16>) -> tensor<8192x16384xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %labels) {count = 8192 : i64, whole = 16384 : i64} : (tensor<8192x16384xf32>, tensor<8192xi32>) -> tensor<f32>
    %3 = "msc.softmax_cross_entropy_grad"(%1, %labels, %scale) {count = 8192 : i64, whole = 16384 : i64} : (tensor<8192x16384xf32>, tensor<8192xi32>, tensor<f32>) -> tensor<8192x16384xf32>
    %4 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<8192x16384xf32>) -> tensor<8192x16384xbf16>
    %5 = "msc.gemm"(%x, %4) {dtype = "f32", transpose_a = true} : (tensor<8192x64xbf16>, tensor<8192x16384xbf16>) -> tensor<64x16384xf32>
    "msc.return"(%2, %5) : (tensor<f32>, tensor<64x16384xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"},
                   {msc.name = "scale", msc.role = "state"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, -1]} : () -> ()
}
