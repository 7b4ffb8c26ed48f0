// RUN: msc opt --passes=portion --set score_portions=2 --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x6xbf16>, %w: tensor<6x8xbf16>, %b: tensor<8xbf16>, %labels: tensor<4x3xi32>, %scale: tensor<f32>):
    %0 = "msc.gemm"(%x, %w, %b) : (tensor<4x3x6xbf16>, tensor<6x8xbf16>, tensor<8xbf16>) -> tensor<4x3x8xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<4x3x8xbf16>) -> tensor<4x3x8xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %labels) {count = 12 : i64, whole = 8 : i64} : (tensor<4x3x8xf32>, tensor<4x3xi32>) -> tensor<f32>
    %3 = "msc.softmax_cross_entropy_grad"(%1, %labels, %scale) {count = 12 : i64, whole = 8 : i64} : (tensor<4x3x8xf32>, tensor<4x3xi32>, tensor<f32>) -> tensor<4x3x8xf32>
    %4 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<4x3x8xf32>) -> tensor<4x3x8xbf16>
    %5 = "msc.gemm"(%4, %w) {transpose_b = true} : (tensor<4x3x8xbf16>, tensor<6x8xbf16>) -> tensor<4x3x6xbf16>
    %6 = "msc.reshape"(%x) {shape = [12, 6]} : (tensor<4x3x6xbf16>) -> tensor<12x6xbf16>
    %7 = "msc.reshape"(%4) {shape = [12, 8]} : (tensor<4x3x8xbf16>) -> tensor<12x8xbf16>
    %8:2 = "msc.gemm"(%6, %7) {dtype = "f32", gives = "sum_b", transpose_a = true} : (tensor<12x6xbf16>, tensor<12x8xbf16>) -> (tensor<6x8xf32>, tensor<8xf32>)
    "msc.return"(%2, %5, %8#0, %8#1) : (tensor<f32>, tensor<4x3x6xbf16>, tensor<6x8xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"},
                   {msc.name = "scale", msc.role = "state"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, -1, -1, -1]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x6xbf16>, %w: tensor<6x8xbf16>, %b: tensor<8xbf16>, %labels: tensor<4x3xi32>, %scale: tensor<f32>):
    %0 = "msc.slice"(%x) {limit = [2, 3, 6], start = [0, 0, 0]} : (tensor<4x3x6xbf16>) -> tensor<2x3x6xbf16>
    %1 = "msc.gemm"(%0, %w, %b) : (tensor<2x3x6xbf16>, tensor<6x8xbf16>, tensor<8xbf16>) -> tensor<2x3x8xbf16>
    %2 = "msc.cast"(%1) {dtype = "f32"} : (tensor<2x3x8xbf16>) -> tensor<2x3x8xf32>
    %3 = "msc.slice"(%labels) {limit = [2, 3], start = [0, 0]} : (tensor<4x3xi32>) -> tensor<2x3xi32>
    %4 = "msc.softmax_cross_entropy"(%2, %3) {count = 12 : i64, whole = 8 : i64} : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> tensor<f32>
    %5 = "msc.slice"(%labels) {limit = [2, 3], start = [0, 0]} : (tensor<4x3xi32>) -> tensor<2x3xi32>
    %6 = "msc.softmax_cross_entropy_grad"(%2, %5, %scale) {count = 12 : i64, whole = 8 : i64} : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<f32>) -> tensor<2x3x8xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<2x3x8xf32>) -> tensor<2x3x8xbf16>
    %8 = "msc.gemm"(%7, %w) {transpose_b = true} : (tensor<2x3x8xbf16>, tensor<6x8xbf16>) -> tensor<2x3x6xbf16>
    %9 = "msc.reshape"(%7) {shape = [6, 8]} : (tensor<2x3x8xbf16>) -> tensor<6x8xbf16>
    %10 = "msc.slice"(%x) {limit = [2, 3, 6], start = [0, 0, 0]} : (tensor<4x3x6xbf16>) -> tensor<2x3x6xbf16>
    %11 = "msc.reshape"(%10) {shape = [6, 6]} : (tensor<2x3x6xbf16>) -> tensor<6x6xbf16>
    %12:2 = "msc.gemm"(%11, %9) {dtype = "f32", gives = "sum_b", transpose_a = true} : (tensor<6x6xbf16>, tensor<6x8xbf16>) -> (tensor<6x8xf32>, tensor<8xf32>)
    %13 = "msc.slice"(%x) {limit = [4, 3, 6], start = [2, 0, 0]} : (tensor<4x3x6xbf16>) -> tensor<2x3x6xbf16>
    %14 = "msc.gemm"(%13, %w, %b) : (tensor<2x3x6xbf16>, tensor<6x8xbf16>, tensor<8xbf16>) -> tensor<2x3x8xbf16>
    %15 = "msc.cast"(%14) {dtype = "f32"} : (tensor<2x3x8xbf16>) -> tensor<2x3x8xf32>
    %16 = "msc.slice"(%labels) {limit = [4, 3], start = [2, 0]} : (tensor<4x3xi32>) -> tensor<2x3xi32>
    %17 = "msc.softmax_cross_entropy"(%15, %16) {count = 12 : i64, whole = 8 : i64} : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> tensor<f32>
    %18 = "msc.add"(%4, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %19 = "msc.slice"(%labels) {limit = [4, 3], start = [2, 0]} : (tensor<4x3xi32>) -> tensor<2x3xi32>
    %20 = "msc.softmax_cross_entropy_grad"(%15, %19, %scale) {count = 12 : i64, whole = 8 : i64} : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<f32>) -> tensor<2x3x8xf32>
    %21 = "msc.cast"(%20) {dtype = "bf16"} : (tensor<2x3x8xf32>) -> tensor<2x3x8xbf16>
    %22 = "msc.gemm"(%21, %w) {transpose_b = true} : (tensor<2x3x8xbf16>, tensor<6x8xbf16>) -> tensor<2x3x6xbf16>
    %23 = "msc.reshape"(%21) {shape = [6, 8]} : (tensor<2x3x8xbf16>) -> tensor<6x8xbf16>
    %24 = "msc.slice"(%x) {limit = [4, 3, 6], start = [2, 0, 0]} : (tensor<4x3x6xbf16>) -> tensor<2x3x6xbf16>
    %25 = "msc.reshape"(%24) {shape = [6, 6]} : (tensor<2x3x6xbf16>) -> tensor<6x6xbf16>
    %26:2 = "msc.gemm"(%25, %23, %12#0) {dtype = "f32", gives = "sum_b", takes = "add", transpose_a = true} : (tensor<6x6xbf16>, tensor<6x8xbf16>, tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>)
    %27 = "msc.add"(%12#1, %26#1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %28 = "msc.concat"(%8, %22) {dim = 0 : i64} : (tensor<2x3x6xbf16>, tensor<2x3x6xbf16>) -> tensor<4x3x6xbf16>
    %29 = "msc.reshape"(%x) {shape = [12, 6]} : (tensor<4x3x6xbf16>) -> tensor<12x6xbf16>
    "msc.return"(%18, %28, %26#0, %27) : (tensor<f32>, tensor<4x3x6xbf16>, tensor<6x8xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"},
                   {msc.name = "scale", msc.role = "state"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, -1, -1, -1]} : () -> ()
}
