// RUN: msc opt --passes=fuse %s
// As one kernel the sums would be of values that go through scratch, twice as wide, and are read by one block.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%i: tensor<64x64x56x56xi32>, %d: tensor<64x64x56x56xbf16>):
    %0 = "msc.max_pool_grad"(%i, %d) {kernel = [3, 3], padding = [1, 1, 1, 1], size = [112, 112], stride = [2, 2]} : (tensor<64x64x56x56xi32>, tensor<64x64x56x56xbf16>) -> tensor<64x64x112x112xbf16>
    %1 = "msc.transpose"(%0) {perm = [0, 2, 3, 1]} : (tensor<64x64x112x112xbf16>) -> tensor<64x112x112x64xbf16>
    %2 = "msc.cast"(%1) {dtype = "f32"} : (tensor<64x112x112x64xbf16>) -> tensor<64x112x112x64xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1, 2]} : (tensor<64x112x112x64xf32>) -> tensor<64xf32>
    "msc.return"(%1, %3) : (tensor<64x112x112x64xbf16>, tensor<64xf32>) -> ()
  }) {results = ["y0", "y1"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%i: tensor<64x64x56x56xi32>, %d: tensor<64x64x56x56xbf16>):
    %0:2 = "msc.fused"(%i, %d) ({
    ^bb0(%1: tensor<64x64x56x56xi32>, %2: tensor<64x64x56x56xbf16>):
      %3 = "msc.max_pool_grad"(%1, %2) {kernel = [3, 3], padding = [1, 1, 1, 1], size = [112, 112], stride = [2, 2]} : (tensor<64x64x56x56xi32>, tensor<64x64x56x56xbf16>) -> tensor<64x64x112x112xbf16>
      %4 = "msc.transpose"(%3) {perm = [0, 2, 3, 1]} : (tensor<64x64x112x112xbf16>) -> tensor<64x112x112x64xbf16>
      %5 = "msc.cast"(%4) {dtype = "f32"} : (tensor<64x112x112x64xbf16>) -> tensor<64x112x112x64xf32>
      "msc.yield"(%4, %5) : (tensor<64x112x112x64xbf16>, tensor<64x112x112x64xf32>) -> ()
    }) : (tensor<64x64x56x56xi32>, tensor<64x64x56x56xbf16>) -> (tensor<64x112x112x64xbf16>, tensor<64x112x112x64xf32>)
    %6 = "msc.reduce_sum"(%0#1) {dims = [0, 1, 2]} : (tensor<64x112x112x64xf32>) -> tensor<64xf32>
    "msc.return"(%0#0, %6) : (tensor<64x112x112x64xbf16>, tensor<64xf32>) -> ()
  }) {results = ["y0", "y1"],
      sym_name = "forward"} : () -> ()
}
