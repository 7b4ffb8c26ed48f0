// RUN: msc opt --passes=fuse --check-numerics %s
// The sum over three looked-up rows goes across rows, the mean behind it along them: they stay two kernels, whether the
// rows were looked up here or came from other ranks.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x8xf32>, %w: tensor<8xf32>):
    %0 = "msc.reduce_sum"(%x) {dims = [1]} : (tensor<4x3x8xf32>) -> tensor<4x8xf32>
    %1 = "msc.mul"(%0, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<4x8xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x8xf32>, %w: tensor<8xf32>):
    %0 = "msc.fused"(%x, %w) ({
    ^bb0(%1: tensor<4x3x8xf32>, %2: tensor<8xf32>):
      %3 = "msc.reduce_sum"(%1) {dims = [1]} : (tensor<4x3x8xf32>) -> tensor<4x8xf32>
      %4 = "msc.mul"(%3, %2) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      %5 = "msc.mul"(%4, %4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      "msc.yield"(%5) : (tensor<4x8xf32>) -> ()
    }) : (tensor<4x3x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %6 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x8xf32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
