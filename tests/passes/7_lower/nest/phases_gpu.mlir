// RUN: msc opt --emit-nest %s
// A norm over many rows, whose columns are one block: each phase runs in launches of its own, cut into parts.  The shift,
// which the last phase reads, is replaced behind it.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<16384x64xbf16>, %w: tensor<64xf32>):
    %0:2 = "msc.fused"(%x, %w) ({
    ^bb0(%1: tensor<16384x64xbf16>, %2: tensor<64xf32>):
      %3 = "msc.cast"(%1) {dtype = "f32"} : (tensor<16384x64xbf16>) -> tensor<16384x64xf32>
      %4 = "msc.reduce_mean"(%3) {dims = [0]} : (tensor<16384x64xf32>) -> tensor<64xf32>
      %5 = "msc.sub"(%3, %4) : (tensor<16384x64xf32>, tensor<64xf32>) -> tensor<16384x64xf32>
      %6 = "msc.add"(%5, %2) : (tensor<16384x64xf32>, tensor<64xf32>) -> tensor<16384x64xf32>
      %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<16384x64xf32>) -> tensor<16384x64xbf16>
      %8 = "msc.sgd"(%2, %4) {lr = 1.0e-01 : f64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      "msc.yield"(%7, %8) : (tensor<16384x64xbf16>, tensor<64xf32>) -> ()
    }) : (tensor<16384x64xbf16>, tensor<64xf32>) -> (tensor<16384x64xbf16>, tensor<64xf32>)
    "msc.return"(%0#0, %0#1) : (tensor<16384x64xbf16>, tensor<64xf32>) -> ()
  }) {results = ["y0", "w"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 512, grain 1, bytes 2228224, flops 1048576, buffers 0 4, dims 32 16384 2048 64, scalars 16384 0.1
nest column gpu lanes 8 phases 1 threads 256 team 32 per_block 1 narrow dims 4 scalars 2 {
  axis items chunk
  axis items baked 64 lane
  axis reduced size d0 clipped d1 team
  buffer bf16
  buffer scratch out
  %1 = load f32 b0[a0: d2, a1, a2: d3]
  %2 = reduce f32 sum %1, phase 1
  store f32 b1[a0: d3, a1, d3] %2, phase 1
}
// fused_total: extent 8, grain 1, bytes 131328, flops 32768, buffers 4, dims 512 64, scalars 16384 0.1
nest column gpu lanes 4 phases 1 threads 256 team 128 per_block 1 narrow dims 2 scalars 2 {
  axis items baked 64 lane
  axis reduced size d0 team
  buffer scratch out
  %1 = load f32 b0[a0, a1: d1, d1]
  %2 = reduce f32 sum %1, phase 1
  store f32 b0[a0] %2, phase 1
}
// fused: extent 1048576, grain 2048, bytes 4194816, flops 2097408, buffers 0 1 2 4, dims 64, scalars 16384 0.1
nest map gpu lanes 8 threads 256 team 1 per_block 2048 narrow dims 1 scalars 2 {
  axis items
  axis items baked 64 lane
  buffer bf16
  buffer f32
  buffer bf16 out
  buffer scratch out
  %1 = load f32 b0[a0: d0, a1]
  %2 = load f32 b3[a1]
  %3 = scalar f32 s0
  %4 = div f32 %2 %3
  %5 = sub f32 %1 %4
  %6 = load f32 b1[a1]
  %7 = add f32 %5 %6
  store f32 b2[a0: d0, a1] %7
}
// fused: extent 64, grain 1024, bytes 768, flops 384, buffers 1 3 4, scalars 16384 0.1
nest map gpu lanes 4 threads 256 team 1 per_block 1024 narrow scalars 2 {
  axis items lane
  buffer f32
  buffer f32 out
  buffer scratch out
  %1 = load f32 b2[a0]
  %2 = scalar f32 s0
  %3 = div f32 %1 %2
  %4 = load f32 b0[a0]
  %5 = scalar f32 s1
  %6 = mul f32 %5 %3
  %7 = sub f32 %4 %6
  store f32 b1[a0] %7
}
