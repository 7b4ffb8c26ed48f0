// RUN: msc opt --check-numerics --emit-nest %s
// The order of the sum is fixed: eight blocks one by one, added as a tree.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x64xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<6x64xf32>):
      %2 = "msc.reduce_sum"(%1) {blocks = 8 : i64, dims = [1]} : (tensor<6x64xf32>) -> tensor<6xf32>
      "msc.yield"(%2) : (tensor<6xf32>) -> ()
    }) : (tensor<6x64xf32>) -> tensor<6xf32>
    "msc.return"(%0) : (tensor<6xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 6, grain 6, bytes 1560, flops 384, buffers 0 1, dims 64 8
nest row lanes 8 phases 1 blocks d1 dims 2 {
  axis items
  axis reduced size d0 lane
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0: d0, a1]
  %2 = reduce f32 sum %1, phase 1
  store f32 b1[a0] %2, phase 1
}
