// RUN: msc opt --passes=contract --check-numerics %s
// A bias of the columns, which came apart, is added while they are one dimension.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x3x6xf32>, %b: tensor<3x6xf32>):
    %0 = "msc.einsum"(%x, %w) {equation = "abk,kyz->abyz"} : (tensor<2x4x8xf32>, tensor<8x3x6xf32>) -> tensor<2x4x3x6xf32>
    %1 = "msc.add"(%0, %b) : (tensor<2x4x3x6xf32>, tensor<3x6xf32>) -> tensor<2x4x3x6xf32>
    "msc.return"(%1) : (tensor<2x4x3x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x3x6xf32>, %b: tensor<3x6xf32>):
    %0 = "msc.reshape"(%x) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    %1 = "msc.reshape"(%w) {shape = [8, 18]} : (tensor<8x3x6xf32>) -> tensor<8x18xf32>
    %2 = "msc.matmul"(%0, %1) : (tensor<8x8xf32>, tensor<8x18xf32>) -> tensor<8x18xf32>
    %3 = "msc.reshape"(%b) {shape = [18]} : (tensor<3x6xf32>) -> tensor<18xf32>
    %4 = "msc.add"(%2, %3) : (tensor<8x18xf32>, tensor<18xf32>) -> tensor<8x18xf32>
    %5 = "msc.reshape"(%4) {shape = [2, 4, 3, 6]} : (tensor<8x18xf32>) -> tensor<2x4x3x6xf32>
    "msc.return"(%5) : (tensor<2x4x3x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
