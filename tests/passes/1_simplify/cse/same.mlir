// RUN: msc opt --passes=cse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
    %0 = "msc.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "msc.exp"(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "msc.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.tanh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "msc.tanh"(%2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = "msc.reduce_sum"(%3) {dims = [0]} : (tensor<4x8xf32>) -> tensor<8xf32>
    %6 = "msc.reduce_sum"(%4) {dims = [1]} : (tensor<4x8xf32>) -> tensor<4xf32>
    %7 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<4x8xf32>) -> tensor<8xf32>
    %8 = "msc.reduce_sum"(%4) {dims = [0], in_strategy = [[2, 1]]} : (tensor<4x8xf32>) -> tensor<8xf32>
    "msc.return"(%1, %5, %6, %7, %8) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
    %0 = "msc.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "msc.exp"(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "msc.tanh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0]} : (tensor<4x8xf32>) -> tensor<8xf32>
    %4 = "msc.reduce_sum"(%2) {dims = [1]} : (tensor<4x8xf32>) -> tensor<4xf32>
    %5 = "msc.reduce_sum"(%2) {dims = [0], in_strategy = [[2, 1]]} : (tensor<4x8xf32>) -> tensor<8xf32>
    "msc.return"(%1, %3, %4, %3, %5) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
