// RUN: msc opt --emit-nest %s
// The second phase reads the sum that the first one stored, not its two terms.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<16384x64xbf16>, %y: tensor<16384x64xbf16>):
    %0:2 = "msc.fused"(%x, %y) ({
    ^bb0(%1: tensor<16384x64xbf16>, %2: tensor<16384x64xbf16>):
      %3 = "msc.add"(%1, %2) : (tensor<16384x64xbf16>, tensor<16384x64xbf16>) -> tensor<16384x64xbf16>
      %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<16384x64xbf16>) -> tensor<16384x64xf32>
      %5 = "msc.reduce_mean"(%4) {dims = [0]} : (tensor<16384x64xf32>) -> tensor<64xf32>
      %6 = "msc.sub"(%4, %5) : (tensor<16384x64xf32>, tensor<64xf32>) -> tensor<16384x64xf32>
      %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<16384x64xf32>) -> tensor<16384x64xbf16>
      "msc.yield"(%3, %7) : (tensor<16384x64xbf16>, tensor<16384x64xbf16>) -> ()
    }) : (tensor<16384x64xbf16>, tensor<16384x64xbf16>) -> (tensor<16384x64xbf16>, tensor<16384x64xbf16>)
    "msc.return"(%0#0, %0#1) : (tensor<16384x64xbf16>, tensor<16384x64xbf16>) -> ()
  }) {results = ["y0", "y1"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 512, grain 1, bytes 6422528, flops 3145728, buffers 0 1 2 4, dims 32 16384 2048 64, scalars 16384
nest column gpu lanes 8 phases 1 threads 256 team 32 per_block 1 narrow dims 4 scalars 1 {
  axis items chunk
  axis items baked 64 lane
  axis reduced size d0 clipped d1 team
  buffer bf16
  buffer bf16
  buffer bf16 out
  buffer scratch out
  %1 = load f32 b0[a0: d2, a1, a2: d3]
  %2 = load f32 b1[a0: d2, a1, a2: d3]
  %3 = add f32 %1 %2
  store f32 b2[a0: d2, a1, a2: d3] %3, phase 1
  %5 = round f32 bf16 %3
  %6 = reduce f32 sum %5, phase 1
  store f32 b3[a0: d3, a1, d3] %6, phase 1
}
// fused_total: extent 8, grain 1, bytes 131328, flops 32768, buffers 4, dims 512 64, scalars 16384
nest column gpu lanes 4 phases 1 threads 256 team 128 per_block 1 narrow dims 2 scalars 1 {
  axis items baked 64 lane
  axis reduced size d0 team
  buffer scratch out
  %1 = load f32 b0[a0, a1: d1, d1]
  %2 = reduce f32 sum %1, phase 1
  store f32 b0[a0] %2, phase 1
}
// fused: extent 1048576, grain 2048, bytes 4194560, flops 1048832, buffers 2 3 4, dims 64, scalars 16384
nest map gpu lanes 8 threads 256 team 1 per_block 2048 narrow dims 1 scalars 1 {
  axis items
  axis items baked 64 lane
  buffer bf16 out
  buffer bf16 out
  buffer scratch out
  %1 = load f32 b0[a0: d0, a1]
  %2 = load f32 b2[a1]
  %3 = scalar f32 s0
  %4 = div f32 %2 %3
  %5 = sub f32 %1 %4
  store f32 b1[a0: d0, a1] %5
}
