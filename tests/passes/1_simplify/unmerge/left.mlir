// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --passes=unmerge,fold,dce --check-numerics %s
// Left as they are: what the user's strategy speaks of, operands that are merged otherwise or not at all, an axis that is the merged
// dimension, a transpose, one dimension that only loses a neighbour of size 1.  A product needs its rows alone.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x8xf32>, %z: tensor<24x8xf32>, %u: tensor<6x4x8xf32>, %t: tensor<1x24x8xf32>):
    %0 = "msc.reshape"(%x) {shape = [24, 8]} : (tensor<4x6x8xf32>) -> tensor<24x8xf32> loc("merge")
    %1 = "msc.reshape"(%u) {shape = [24, 8]} : (tensor<6x4x8xf32>) -> tensor<24x8xf32> loc("other")
    %2 = "msc.reshape"(%t) {shape = [24, 8]} : (tensor<1x24x8xf32>) -> tensor<24x8xf32> loc("squeeze")
    %3 = "msc.relu"(%0) {in_strategy = [[8, 1]]} : (tensor<24x8xf32>) -> tensor<24x8xf32> loc("told")
    %4 = "msc.add"(%0, %z) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> loc("not merged")
    %5 = "msc.mul"(%0, %1) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> loc("merged otherwise")
    %6 = "msc.softmax"(%0) {axis = 0 : i64} : (tensor<24x8xf32>) -> tensor<24x8xf32> loc("along")
    %7 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<24x8xf32>) -> tensor<8x24xf32> loc("turned")
    %8 = "msc.exp"(%2) : (tensor<24x8xf32>) -> tensor<24x8xf32> loc("alone")
    %9 = "msc.matmul"(%0, %7) : (tensor<24x8xf32>, tensor<8x24xf32>) -> tensor<24x24xf32> loc("rows only")
    "msc.return"(%3, %4, %5, %6, %8, %9) : (tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x24xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x8xf32>, %z: tensor<24x8xf32>, %u: tensor<6x4x8xf32>, %t: tensor<1x24x8xf32>):
    %0 = "msc.reshape"(%x) {shape = [24, 8]} : (tensor<4x6x8xf32>) -> tensor<24x8xf32> loc("merge")
    %1 = "msc.reshape"(%u) {shape = [24, 8]} : (tensor<6x4x8xf32>) -> tensor<24x8xf32> loc("other")
    %2 = "msc.reshape"(%t) {shape = [24, 8]} : (tensor<1x24x8xf32>) -> tensor<24x8xf32> loc("squeeze")
    %3 = "msc.relu"(%0) {in_strategy = [[8, 1]]} : (tensor<24x8xf32>) -> tensor<24x8xf32> loc("told")
    %4 = "msc.add"(%0, %z) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> loc("not merged")
    %5 = "msc.mul"(%0, %1) : (tensor<24x8xf32>, tensor<24x8xf32>) -> tensor<24x8xf32> loc("merged otherwise")
    %6 = "msc.softmax"(%0) {axis = 0 : i64} : (tensor<24x8xf32>) -> tensor<24x8xf32> loc("along")
    %7 = "msc.exp"(%2) : (tensor<24x8xf32>) -> tensor<24x8xf32> loc("alone")
    %8 = "msc.batch_matmul"(%x, %0) {transpose_b = true} : (tensor<4x6x8xf32>, tensor<24x8xf32>) -> tensor<4x6x24xf32> loc("rows only")
    %9 = "msc.reshape"(%8) {shape = [24, 24]} : (tensor<4x6x24xf32>) -> tensor<24x24xf32> loc("merge")
    "msc.return"(%3, %4, %5, %6, %7, %9) : (tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x24xf32>) -> ()
  }) {sym_name = "forward",
      unmerged_ops = 1 : i64} : () -> ()
}
