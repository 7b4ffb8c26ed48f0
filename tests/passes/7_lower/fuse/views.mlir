// RUN: msc opt --passes=fuse %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>):
    %0 = "msc.reshape"(%x) {shape = [4, 2, 3]} : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 3]} : (tensor<4x2x3xf32>) -> tensor<8x3xf32>
    "msc.return"(%1) : (tensor<8x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>):
    %0 = "msc.reshape"(%x) {shape = [4, 2, 3]} : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 3]} : (tensor<4x2x3xf32>) -> tensor<8x3xf32>
    "msc.return"(%1) : (tensor<8x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
