// RUN: msc opt --check-numerics --emit-nest %s
// A convolution without a library: a sum over channels and windows.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<1x3x6x6xf32>, %w: tensor<4x3x3x3xf32>):
    %0 = "msc.fused"(%x, %w) ({
    ^bb0(%1: tensor<1x3x6x6xf32>, %2: tensor<4x3x3x3xf32>):
      %3 = "msc.conv2d"(%1, %2) {padding = [1, 1, 1, 1], stride = [1, 1]} : (tensor<1x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
      "msc.yield"(%3) : (tensor<1x4x6x6xf32>) -> ()
    }) : (tensor<1x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    "msc.return"(%0) : (tensor<1x4x6x6xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 24, grain 24, bytes 1440, flops 8136, buffers 0 1 2, dims 6 3 -1 -7 36 27 9
nest column lanes 8 phases 1 dims 7 {
  axis items
  axis items size d0
  axis items baked 6 lane
  axis reduced size d1
  axis reduced size d1
  axis reduced size d1
  buffer f32
  buffer f32
  buffer f32 out
  %1 = dim i64 d0
  %2 = index i64 [a1, a4, d2]
  %3 = compare i1 below %2 %1
  %4 = index i64 [a2, a5, d2]
  %5 = compare i1 below %4 %1
  %6 = and i1 %3 %5
  %7 = load f32 b0[a1: d0, a2, a3: d4, a4: d0, a5, d3] none %6
  %8 = load f32 b1[a0: d5, a3: d6, a4: d1, a5]
  %9 = mul f32 %7 %8
  %10 = reduce f32 sum %9, phase 1
  store f32 b2[a0: d4, a1: d0, a2] %10, phase 1
}
