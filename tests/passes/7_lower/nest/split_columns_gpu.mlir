// RUN: msc opt --emit-nest %s
// The gradients of a norm's scale and shift: 3 blocks side by side, so the rows are cut into 171 parts: 513 blocks.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<16384x768xbf16>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<16384x768xbf16>):
      %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<16384x768xbf16>) -> tensor<768xbf16>
      "msc.yield"(%2) : (tensor<768xbf16>) -> ()
    }) : (tensor<16384x768xbf16>) -> tensor<768xbf16>
    "msc.return"(%0) : (tensor<768xbf16>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 513, grain 1, bytes 25691136, flops 12607488, buffers 0 2, dims 768 96 16384 73728
nest column gpu lanes 8 phases 1 threads 256 team 8 per_block 1 narrow dims 4 {
  axis items chunk
  axis items size d0 lane
  axis reduced size d1 clipped d2 team
  buffer bf16
  buffer scratch out
  %1 = load f32 b0[a0: d3, a1, a2: d0]
  %2 = reduce f32 sum %1, phase 1
  store f32 b1[a0: d0, a1] %2, phase 1
}
// fused_total: extent 48, grain 1, bytes 526848, flops 131328, buffers 1 2, dims 768 171
nest column gpu lanes 8 phases 1 threads 256 team 128 per_block 1 narrow dims 2 {
  axis items size d0 lane
  axis reduced size d1 team
  buffer bf16 out
  buffer scratch out
  %1 = load f32 b1[a0, a1: d0]
  %2 = reduce f32 sum %1, phase 1
  store f32 b0[a0] %2, phase 1
}
