// RUN: msc opt --check-numerics --emit-nest %s
// Too long for one item: parts go to scratch, and a second launch adds them.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<100000xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<100000xf32>):
      %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<100000xf32>) -> tensor<f32>
      "msc.yield"(%2) : (tensor<f32>) -> ()
    }) : (tensor<100000xf32>) -> tensor<f32>
    "msc.return"(%0) : (tensor<f32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 13, grain 1, bytes 400052, flops 106496, buffers 0 2, dims 8192 100000
nest row lanes 8 phases 1 dims 2 {
  axis items chunk
  axis reduced size d0 lane clipped d1
  buffer f32
  buffer scratch out
  %1 = load f32 b0[a0: d0, a1]
  %2 = reduce f32 sum %1, phase 1
  store f32 b1[a0] %2, phase 1
}
// fused_total: extent 1, grain 1, bytes 56, flops 13, buffers 1 2
nest row lanes 8 phases 1 {
  axis reduced baked 13 lane
  buffer f32 out
  buffer scratch out
  %1 = load f32 b1[a0]
  %2 = reduce f32 sum %1, phase 1
  store f32 b0[0] %2, phase 1
}
