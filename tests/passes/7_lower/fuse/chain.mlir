// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x32xf32>, %b: tensor<32xf32>):
    %0 = "msc.add"(%x, %b) : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    %1 = "msc.exp"(%0) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [1]} : (tensor<64x32xf32>) -> tensor<64xf32>
    "msc.return"(%2) : (tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x32xf32>, %b: tensor<32xf32>):
    %0 = "msc.fused"(%x, %b) ({
    ^bb0(%1: tensor<64x32xf32>, %2: tensor<32xf32>):
      %3 = "msc.add"(%1, %2) : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
      %4 = "msc.exp"(%3) : (tensor<64x32xf32>) -> tensor<64x32xf32>
      %5 = "msc.reduce_sum"(%4) {dims = [1]} : (tensor<64x32xf32>) -> tensor<64xf32>
      "msc.yield"(%5) : (tensor<64xf32>) -> ()
    }) : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64xf32>
    "msc.return"(%0) : (tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
