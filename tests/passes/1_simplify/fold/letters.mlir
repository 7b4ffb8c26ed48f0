// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>):
    %0 = "msc.reshape"(%x) {shape = [6, 4]} : (tensor<2x3x4xf32>) -> tensor<6x4xf32> loc("front")
    %1 = "msc.reshape"(%0) {forward = "front", letters = "A.", shape = [3, 8]} : (tensor<6x4xf32>) -> tensor<3x8xf32>
    %2 = "msc.reshape"(%0) {forward = "front", letters = "ABC", shape = [6, 4]} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    "msc.return"(%1, %2) : (tensor<3x8xf32>, tensor<6x4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4xf32>):
    %0 = "msc.reshape"(%x) {shape = [6, 4]} : (tensor<2x3x4xf32>) -> tensor<6x4xf32> loc("front")
    %1 = "msc.reshape"(%0) {forward = "front", letters = "A.", shape = [3, 8]} : (tensor<6x4xf32>) -> tensor<3x8xf32>
    "msc.return"(%1, %0) : (tensor<3x8xf32>, tensor<6x4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
