// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.neg"(%x) {in_strategy = [[2, 1]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "msc.neg"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "msc.neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.neg"(%2) {out_layout = ["[{},{}]"]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "msc.neg"(%2) {recompute = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%1, %3, %4) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.neg"(%x) {in_strategy = [[2, 1]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "msc.neg"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "msc.neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.neg"(%2) {out_layout = ["[{},{}]"]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%1, %3, %x) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
