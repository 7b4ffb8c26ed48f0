// RUN: msc opt --passes=epilogue --check-numerics %s
// Sums over micro-batches: the product adds what there is, unless the step begins; rows of an odd number of elements are left to align.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xbf16>, %dy: tensor<6x8xbf16>, %dz: tensor<6x5xf32>, %u: tensor<6x3xf32>, %number: tensor<i64>, %w: tensor<4x8xf32>, %bias: tensor<8xf32>, %v: tensor<3x5xf32>):
    %0 = "msc.gemm"(%x, %dy) {transpose_a = true} : (tensor<6x4xbf16>, tensor<6x8xbf16>) -> tensor<4x8xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %2 = "msc.reduce_sum"(%dy) {dims = [0]} : (tensor<6x8xbf16>) -> tensor<8xbf16>
    %3 = "msc.cast"(%2) {dtype = "f32"} : (tensor<8xbf16>) -> tensor<8xf32>
    %4 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %5 = "msc.compare"(%number, %4) {predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %6 = "msc.add"(%bias, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %7 = "msc.select"(%5, %3, %6) : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %8 = "msc.add"(%w, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %9 = "msc.select"(%5, %1, %8) : (tensor<i1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %10 = "msc.gemm"(%u, %dz) {transpose_a = true} : (tensor<6x3xf32>, tensor<6x5xf32>) -> tensor<3x5xf32>
    %11 = "msc.add"(%v, %10) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    %12 = "msc.select"(%5, %10, %11) : (tensor<i1>, tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    "msc.return"(%9, %7, %12) : (tensor<4x8xf32>, tensor<8xf32>, tensor<3x5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.name = "dz", msc.role = "data"},
                   {msc.name = "u", msc.role = "data"},
                   {msc.name = "number", msc.role = "micro"},
                   {msc.name = "w", msc.role = "sum"},
                   {msc.name = "bias", msc.role = "sum"},
                   {msc.name = "v", msc.role = "sum"}],
      sym_name = "train.FB",
      ties = [5, 6, 7]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x4xbf16>, %dy: tensor<6x8xbf16>, %dz: tensor<6x5xf32>, %u: tensor<6x3xf32>, %number: tensor<i64>, %w: tensor<4x8xf32>, %bias: tensor<8xf32>, %v: tensor<3x5xf32>):
    %0 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %1 = "msc.compare"(%number, %0) {predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %2:2 = "msc.gemm"(%x, %dy, %w, %1) {dtype = "f32", gives = "sum_b", takes = "add unless", transpose_a = true} : (tensor<6x4xbf16>, tensor<6x8xbf16>, tensor<4x8xf32>, tensor<i1>) -> (tensor<4x8xf32>, tensor<8xf32>)
    %3 = "msc.add"(%bias, %2#1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %4 = "msc.select"(%1, %2#1, %3) : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.gemm"(%u, %dz) {transpose_a = true} : (tensor<6x3xf32>, tensor<6x5xf32>) -> tensor<3x5xf32>
    %6 = "msc.add"(%v, %5) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    %7 = "msc.select"(%1, %5, %6) : (tensor<i1>, tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    "msc.return"(%2#0, %4, %7) : (tensor<4x8xf32>, tensor<8xf32>, tensor<3x5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.name = "dz", msc.role = "data"},
                   {msc.name = "u", msc.role = "data"},
                   {msc.name = "number", msc.role = "micro"},
                   {msc.name = "w", msc.role = "sum"},
                   {msc.name = "bias", msc.role = "sum"},
                   {msc.name = "v", msc.role = "sum"}],
      sym_name = "train.FB",
      ties = [5, 6, 7]} : () -> ()
}
