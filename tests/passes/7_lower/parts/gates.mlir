// RUN: msc opt --passes=parts,fuse --check-numerics %s
// The gates of a recurrent cell: each is read by the kernel that uses it; nobody reads the last part.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x12xf32>):
    %0:4 = "msc.split"(%x) {dim = 1 : i64, sizes = [4, 4, 2, 2]} : (tensor<2x12xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
    %1 = "msc.sigmoid"(%0#0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %2 = "msc.tanh"(%0#1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = "msc.mul"(%1, %2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    "msc.return"(%3, %0#2) : (tensor<2x4xf32>, tensor<2x2xf32>) -> ()
  }) {results = ["y", "z"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x12xf32>):
    %0 = "msc.slice"(%x) {limit = [2, 10], start = [0, 8]} : (tensor<2x12xf32>) -> tensor<2x2xf32>
    %1 = "msc.fused"(%x) ({
    ^bb0(%2: tensor<2x12xf32>):
      %3 = "msc.slice"(%2) {limit = [2, 4], start = [0, 0]} : (tensor<2x12xf32>) -> tensor<2x4xf32>
      %4 = "msc.slice"(%2) {limit = [2, 8], start = [0, 4]} : (tensor<2x12xf32>) -> tensor<2x4xf32>
      %5 = "msc.sigmoid"(%3) : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %6 = "msc.tanh"(%4) : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %7 = "msc.mul"(%5, %6) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      "msc.yield"(%7) : (tensor<2x4xf32>) -> ()
    }) : (tensor<2x12xf32>) -> tensor<2x4xf32>
    "msc.return"(%1, %0) : (tensor<2x4xf32>, tensor<2x2xf32>) -> ()
  }) {results = ["y", "z"],
      sym_name = "forward"} : () -> ()
}
