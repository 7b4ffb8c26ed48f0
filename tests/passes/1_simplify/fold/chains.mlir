// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>, %r: tensor<3xf32>):
    %0 = "msc.reshape"(%x) {shape = [6, 4]} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    %1 = "msc.reshape"(%0) {shape = [3, -1]} : (tensor<6x4xf32>) -> tensor<3x8xf32>
    %2 = "msc.reshape"(%x) {shape = [4, 3, 2]} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
    %3 = "msc.flatten"(%2) {axis = 1 : i64} : (tensor<4x3x2xf32>) -> tensor<4x6xf32>
    %4 = "msc.transpose"(%x) {perm = [1, 2, 0]} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
    %5 = "msc.transpose"(%4) {perm = [0, 2, 1]} : (tensor<3x4x2xf32>) -> tensor<3x2x4xf32>
    %6 = "msc.transpose"(%4) {perm = [2, 0, 1]} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
    %7 = "msc.broadcast_to"(%r) {shape = [2, 3]} : (tensor<3xf32>) -> tensor<2x3xf32>
    %8 = "msc.broadcast_to"(%7) {shape = [4, 2, 3]} : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
    %9 = "msc.reshape"(%0) {shape = [2, 3, 4]} : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
    "msc.return"(%1, %3, %5, %6, %8, %9) : (tensor<3x8xf32>, tensor<4x6xf32>, tensor<3x2x4xf32>, tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<2x3x4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>, %r: tensor<3xf32>):
    %0 = "msc.reshape"(%x) {shape = [3, 8]} : (tensor<2x3x4xf32>) -> tensor<3x8xf32>
    %1 = "msc.reshape"(%x) {shape = [4, 6]} : (tensor<2x3x4xf32>) -> tensor<4x6xf32>
    %2 = "msc.transpose"(%x) {perm = [1, 0, 2]} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
    %3 = "msc.broadcast_to"(%r) {shape = [4, 2, 3]} : (tensor<3xf32>) -> tensor<4x2x3xf32>
    "msc.return"(%0, %1, %2, %x, %3, %x) : (tensor<3x8xf32>, tensor<4x6xf32>, tensor<3x2x4xf32>, tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<2x3x4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
