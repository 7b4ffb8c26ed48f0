// RUN: msc opt --emit-nest %s
// On a GPU. Parts of the sum are blocks.
module attributes {msc.target = "cuda"} {
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
// fused: extent 49, grain 1, bytes 400196, flops 100352, buffers 0 2, dims 2048 100000
nest row gpu lanes 4 phases 1 threads 128 team 128 per_block 1 narrow dims 2 {
  axis items chunk
  axis reduced size d0 lane clipped d1 team
  buffer f32
  buffer scratch out
  %1 = load f32 b0[a0: d0, a1]
  %2 = reduce f32 sum %1, phase 1
  store f32 b1[a0] %2, phase 1
}
// fused_total: extent 1, grain 4, bytes 200, flops 49, buffers 1 2
nest row gpu lanes 1 phases 1 threads 128 team 32 per_block 4 narrow {
  axis reduced baked 49 lane team
  buffer f32 out
  buffer scratch out
  %1 = load f32 b1[a0]
  %2 = reduce f32 sum %1, phase 1
  store f32 b0[0] %2, phase 1
}
