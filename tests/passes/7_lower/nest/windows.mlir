// RUN: msc opt --check-numerics --emit-nest %s
// What a window of a padded image sees: reads where it lies inside.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x8x8xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<2x3x8x8xf32>):
      %2 = "msc.max_pool"(%1) {kernel = [3, 3], padding = [1, 1, 1, 1], stride = [2, 2]} : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
      "msc.yield"(%2) : (tensor<2x3x4x4xf32>) -> ()
    }) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
    "msc.return"(%0) : (tensor<2x3x4x4xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 96, grain 96, bytes 1920, flops 1896, buffers 0 1, dims 8 4 3 -1 2 -9 64 16
nest row lanes 8 phases 1 dims 8 {
  axis items
  axis items size d1
  axis items size d1
  axis reduced size d2
  axis reduced baked 3 lane
  buffer f32
  buffer f32 out
  %1 = dim i64 d0
  %2 = index i64 [a1: d4, a3, d3]
  %3 = compare i1 below %2 %1
  %4 = index i64 [a2: d4, a4, d3]
  %5 = compare i1 below %4 %1
  %6 = and i1 %3 %5
  %7 = load f32 b0[a0: d6, a1: d7, a2: d4, a3: d0, a4, d5] none %6
  %8 = const f32 0xFFF0000000000000
  %9 = select f32 %6 %7 %8
  %10 = reduce f32 max %9, phase 1
  store f32 b1[a0: d7, a1: d1, a2] %10, phase 1
}
