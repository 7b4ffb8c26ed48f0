// RUN: msc opt --passes=segments --check-numerics %s
// Two tables that the same numbers look up: these are sorted once. Sums that no rank cuts, of another axis or of integers stay.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xi32>, %dy: tensor<2x4x3xf32>, %dz: tensor<2x4xf64>, %k: tensor<4xi32>, %u: tensor<4x3xf32>, %v: tensor<3x4xf32>, %w: tensor<2x4xi32>):
    %0 = "msc.scatter_add"(%x, %dy) {blocks = 8 : i64, rows = 5 : i64} : (tensor<2x4xi32>, tensor<2x4x3xf32>) -> tensor<5x3xf32>
    %1 = "msc.scatter_add"(%x, %dz) {blocks = 8 : i64, rows = 5 : i64} : (tensor<2x4xi32>, tensor<2x4xf64>) -> tensor<5xf64>
    %2 = "msc.scatter_add"(%k, %u) {rows = 5 : i64} : (tensor<4xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %3 = "msc.scatter_add"(%k, %v) {axis = 1 : i64, blocks = 4 : i64, rows = 5 : i64} : (tensor<4xi32>, tensor<3x4xf32>) -> tensor<3x5xf32>
    %4 = "msc.scatter_add"(%x, %w) {rows = 5 : i64} : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<5xi32>
    "msc.return"(%0, %1, %2, %3, %4) : (tensor<5x3xf32>, tensor<5xf64>, tensor<5x3xf32>, tensor<3x5xf32>, tensor<5xi32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xi32>, %dy: tensor<2x4x3xf32>, %dz: tensor<2x4xf64>, %k: tensor<4xi32>, %u: tensor<4x3xf32>, %v: tensor<3x4xf32>, %w: tensor<2x4xi32>):
    %0 = "msc.reshape"(%x) {shape = [8]} : (tensor<2x4xi32>) -> tensor<8xi32>
    %1:2 = "msc.sort"(%0) : (tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>)
    %2 = "msc.reshape"(%dy) {shape = [8, 3]} : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
    %3 = "msc.segment_sum"(%1#0, %1#1, %2) {blocks = 8 : i64, rows = 5 : i64} : (tensor<8xi32>, tensor<8xi32>, tensor<8x3xf32>) -> tensor<5x3xf32>
    %4 = "msc.reshape"(%dz) {shape = [8]} : (tensor<2x4xf64>) -> tensor<8xf64>
    %5 = "msc.segment_sum"(%1#0, %1#1, %4) {blocks = 8 : i64, rows = 5 : i64} : (tensor<8xi32>, tensor<8xi32>, tensor<8xf64>) -> tensor<5xf64>
    %6 = "msc.scatter_add"(%k, %u) {rows = 5 : i64} : (tensor<4xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %7 = "msc.scatter_add"(%k, %v) {axis = 1 : i64, blocks = 4 : i64, rows = 5 : i64} : (tensor<4xi32>, tensor<3x4xf32>) -> tensor<3x5xf32>
    %8 = "msc.scatter_add"(%x, %w) {rows = 5 : i64} : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<5xi32>
    "msc.return"(%3, %5, %6, %7, %8) : (tensor<5x3xf32>, tensor<5xf64>, tensor<5x3xf32>, tensor<3x5xf32>, tensor<5xi32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
