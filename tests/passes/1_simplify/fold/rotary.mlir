// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%q: tensor<2x8x3x4xf32>, %k: tensor<2x8x3x4xf32>):
    %0 = "msc.transpose"(%q) {perm = [0, 2, 1, 3]} : (tensor<2x8x3x4xf32>) -> tensor<2x3x8x4xf32> loc("q.heads")
    %1 = "msc.rotary"(%0) : (tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32> loc("q.rotary")
    %2 = "msc.transpose"(%k) {perm = [0, 2, 3, 1]} : (tensor<2x8x3x4xf32>) -> tensor<2x3x4x8xf32> loc("k.heads")
    %3 = "msc.rotary"(%2) : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> loc("k.rotary")
    "msc.return"(%1, %3) : (tensor<2x3x8x4xf32>, tensor<2x3x4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%q: tensor<2x8x3x4xf32>, %k: tensor<2x8x3x4xf32>):
    %0 = "msc.rotary"(%q) {axis = 1 : i64} : (tensor<2x8x3x4xf32>) -> tensor<2x8x3x4xf32> loc("q.rotary")
    %1 = "msc.transpose"(%0) {perm = [0, 2, 1, 3]} : (tensor<2x8x3x4xf32>) -> tensor<2x3x8x4xf32> loc("q.heads")
    %2 = "msc.transpose"(%k) {perm = [0, 2, 3, 1]} : (tensor<2x8x3x4xf32>) -> tensor<2x3x4x8xf32> loc("k.heads")
    %3 = "msc.rotary"(%2) : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> loc("k.rotary")
    "msc.return"(%1, %3) : (tensor<2x3x8x4xf32>, tensor<2x3x4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
