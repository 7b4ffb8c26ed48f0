// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x16xf32>, %g: tensor<8x16xf32>):
    %0 = "msc.mul"(%x, %x) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = "msc.reduce_mean"(%0) {count = 16 : i64, dims = [1], keep_dims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    %2 = "msc.sqrt"(%1) : (tensor<8x1xf32>) -> tensor<8x1xf32>
    %3 = "msc.mul"(%g, %2) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    "msc.return"(%3) : (tensor<8x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x16xf32>, %g: tensor<8x16xf32>):
    %0 = "msc.fused"(%x, %g) ({
    ^bb0(%1: tensor<8x16xf32>, %2: tensor<8x16xf32>):
      %3 = "msc.mul"(%1, %1) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
      %4 = "msc.reduce_mean"(%3) {count = 16 : i64, dims = [1], keep_dims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
      %5 = "msc.sqrt"(%4) : (tensor<8x1xf32>) -> tensor<8x1xf32>
      %6 = "msc.mul"(%2, %5) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
      "msc.yield"(%6) : (tensor<8x16xf32>) -> ()
    }) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    "msc.return"(%0) : (tensor<8x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
