// RUN: msc opt --passes=portion --set memory_limit=536870912 %s
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
    %0 = "msc.slice"(%x) {limit = [4096, 64], start = [0, 0]} : (tensor<8192x64xbf16>) -> tensor<4096x64xbf16>
    %1 = "msc.gemm"(%0, %w) : (tensor<4096x64xbf16>, tensor<64x16384xbf16>) -> tensor<4096x16384xbf16>
    %2 = "msc.cast"(%1) {dtype = "f32"} : (tensor<4096x16384xbf16>) -> tensor<4096x16384xf32>
    %3 = "msc.slice"(%labels) {limit = [4096], start = [0]} : (tensor<8192xi32>) -> tensor<4096xi32>
    %4 = "msc.softmax_cross_entropy"(%2, %3) {count = 8192 : i64, whole = 16384 : i64} : (tensor<4096x16384xf32>, tensor<4096xi32>) -> tensor<f32>
    %5 = "msc.slice"(%labels) {limit = [4096], start = [0]} : (tensor<8192xi32>) -> tensor<4096xi32>
    %6 = "msc.softmax_cross_entropy_grad"(%2, %5, %scale) {count = 8192 : i64, whole = 16384 : i64} : (tensor<4096x16384xf32>, tensor<4096xi32>, tensor<f32>) -> tensor<4096x16384xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<4096x16384xf32>) -> tensor<4096x16384xbf16>
    %8 = "msc.slice"(%x) {limit = [4096, 64], start = [0, 0]} : (tensor<8192x64xbf16>) -> tensor<4096x64xbf16>
    %9 = "msc.gemm"(%8, %7) {dtype = "f32", transpose_a = true} : (tensor<4096x64xbf16>, tensor<4096x16384xbf16>) -> tensor<64x16384xf32>
    %10 = "msc.slice"(%x) {limit = [8192, 64], start = [4096, 0]} : (tensor<8192x64xbf16>) -> tensor<4096x64xbf16>
    %11 = "msc.gemm"(%10, %w) : (tensor<4096x64xbf16>, tensor<64x16384xbf16>) -> tensor<4096x16384xbf16>
    %12 = "msc.cast"(%11) {dtype = "f32"} : (tensor<4096x16384xbf16>) -> tensor<4096x16384xf32>
    %13 = "msc.slice"(%labels) {limit = [8192], start = [4096]} : (tensor<8192xi32>) -> tensor<4096xi32>
    %14 = "msc.softmax_cross_entropy"(%12, %13) {count = 8192 : i64, whole = 16384 : i64} : (tensor<4096x16384xf32>, tensor<4096xi32>) -> tensor<f32>
    %15 = "msc.add"(%4, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %16 = "msc.slice"(%labels) {limit = [8192], start = [4096]} : (tensor<8192xi32>) -> tensor<4096xi32>
    %17 = "msc.softmax_cross_entropy_grad"(%12, %16, %scale) {count = 8192 : i64, whole = 16384 : i64} : (tensor<4096x16384xf32>, tensor<4096xi32>, tensor<f32>) -> tensor<4096x16384xf32>
    %18 = "msc.cast"(%17) {dtype = "bf16"} : (tensor<4096x16384xf32>) -> tensor<4096x16384xbf16>
    %19 = "msc.slice"(%x) {limit = [8192, 64], start = [4096, 0]} : (tensor<8192x64xbf16>) -> tensor<4096x64xbf16>
    %20 = "msc.gemm"(%19, %18, %9) {dtype = "f32", takes = "add", transpose_a = true} : (tensor<4096x64xbf16>, tensor<4096x16384xbf16>, tensor<64x16384xf32>) -> tensor<64x16384xf32>
    "msc.return"(%15, %20) : (tensor<f32>, tensor<64x16384xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"},
                   {msc.name = "scale", msc.role = "state"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, -1]} : () -> ()
}
