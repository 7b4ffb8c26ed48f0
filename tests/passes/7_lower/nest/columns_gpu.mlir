// RUN: msc opt --emit-nest %s
// On a GPU. Columns are threads side by side.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%g: tensor<50x24xf32>, %x: tensor<50x24xf32>):
    %0 = "msc.fused"(%g, %x) ({
    ^bb0(%1: tensor<50x24xf32>, %2: tensor<50x24xf32>):
      %3 = "msc.mul"(%1, %2) : (tensor<50x24xf32>, tensor<50x24xf32>) -> tensor<50x24xf32>
      %4 = "msc.reduce_sum"(%3) {dims = [0]} : (tensor<50x24xf32>) -> tensor<24xf32>
      "msc.yield"(%4) : (tensor<24xf32>) -> ()
    }) : (tensor<50x24xf32>, tensor<50x24xf32>) -> tensor<24xf32>
    "msc.return"(%0) : (tensor<24xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 2, grain 1, bytes 9696, flops 2400, buffers 0 1 2, dims 50 24
nest column gpu lanes 4 phases 1 threads 256 team 64 per_block 1 narrow dims 2 {
  axis items baked 24 lane
  axis reduced size d0 team
  buffer f32
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0, a1: d1]
  %2 = load f32 b1[a0, a1: d1]
  %3 = mul f32 %1 %2
  %4 = reduce f32 sum %3, phase 1
  store f32 b2[a0] %4, phase 1
}
