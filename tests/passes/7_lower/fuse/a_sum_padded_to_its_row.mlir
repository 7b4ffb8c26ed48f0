// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>):
    %0 = "msc.mul"(%x, %x) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %1 = "msc.reduce_sum"(%x) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %2 = "msc.pad"(%1) {high = [0, 5], low = [0, 0]} : (tensor<4x1xf32>) -> tensor<4x6xf32>
    %3 = "msc.add"(%0, %2) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%3) : (tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<4x6xf32>):
      %2 = "msc.mul"(%1, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
      %3 = "msc.reduce_sum"(%1) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32>
      %4 = "msc.pad"(%3) {high = [0, 5], low = [0, 0]} : (tensor<4x1xf32>) -> tensor<4x6xf32>
      %5 = "msc.add"(%2, %4) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
      "msc.yield"(%5) : (tensor<4x6xf32>) -> ()
    }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%0) : (tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
