// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --passes=unmerge,fold,dce --check-numerics %s
// What is reduced needs no reshape behind; labels are apart as well.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4x5xf32>, %y: tensor<2x3x4xi32>):
    %0 = "msc.reshape"(%x) {shape = [24, 5]} : (tensor<2x3x4x5xf32>) -> tensor<24x5xf32> loc("logits")
    %1 = "msc.flatten"(%y) {axis = 0 : i64} : (tensor<2x3x4xi32>) -> tensor<24xi32> loc("labels")
    %2 = "msc.softmax_cross_entropy"(%0, %1) : (tensor<24x5xf32>, tensor<24xi32>) -> tensor<f32> loc("mean")
    %3 = "msc.softmax_cross_entropy"(%0, %1) {reduction = "none"} : (tensor<24x5xf32>, tensor<24xi32>) -> tensor<24xf32> loc("each")
    %4 = "msc.neg"(%3) : (tensor<24xf32>) -> tensor<24xf32> loc("neg")
    "msc.return"(%2, %4) : (tensor<f32>, tensor<24xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x4x5xf32>, %y: tensor<2x3x4xi32>):
    %0 = "msc.softmax_cross_entropy"(%x, %y) : (tensor<2x3x4x5xf32>, tensor<2x3x4xi32>) -> tensor<f32> loc("mean")
    %1 = "msc.softmax_cross_entropy"(%x, %y) {reduction = "none"} : (tensor<2x3x4x5xf32>, tensor<2x3x4xi32>) -> tensor<2x3x4xf32> loc("each")
    %2 = "msc.neg"(%1) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32> loc("neg")
    %3 = "msc.reshape"(%2) {shape = [24]} : (tensor<2x3x4xf32>) -> tensor<24xf32> loc("logits")
    "msc.return"(%0, %3) : (tensor<f32>, tensor<24xf32>) -> ()
  }) {sym_name = "forward",
      unmerged_ops = 3 : i64} : () -> ()
}
