// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x32xf32>):
    %0 = "msc.exp"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "msc.gemm"(%0, %x) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = "msc.add"(%0, %1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    "msc.return"(%2) : (tensor<32x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x32xf32>):
    %0 = "msc.exp"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "msc.gemm"(%0, %x) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = "msc.add"(%0, %1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    "msc.return"(%2) : (tensor<32x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
