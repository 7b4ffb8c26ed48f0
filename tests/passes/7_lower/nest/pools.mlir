// RUN: msc opt --check-numerics --emit-nest %s
// Lanes lie along the windows of a line, whose elements are apart, not along the three elements of one window. (Of f32 the
// runtime has the pool.)
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x16x40xi32>):
    %0 = "msc.max_pool"(%x) {kernel = [3, 3], padding = [1, 1, 1, 1], stride = [2, 2]} : (tensor<2x3x16x40xi32>) -> tensor<2x3x8x20xi32>
    "msc.return"(%0) : (tensor<2x3x8x20xi32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
// max_pool: extent 48, grain 48, bytes 19200, flops 18804, buffers 0 1, dims 16 40 8 3 -1 2 -41 640 80 160 20
nest column lanes 8 phases 1 dims 11 {
  axis items
  axis items size d2
  axis items baked 20 lane
  axis reduced size d3
  axis reduced size d3
  buffer i32
  buffer i32 out
  %1 = dim i64 d0
  %2 = index i64 [a1: d5, a3, d4]
  %3 = compare i1 below %2 %1
  %4 = dim i64 d1
  %5 = index i64 [a2: d5, a4, d4]
  %6 = compare i1 below %5 %4
  %7 = and i1 %3 %6
  %8 = load i32 b0[a0: d7, a1: d8, a2: d5, a3: d1, a4, d6] none %7
  %9 = const i32 -2.147483648e+09
  %10 = select i32 %7 %8 %9
  %11 = reduce i32 max %10, phase 1
  store i32 b1[a0: d9, a1: d10, a2] %11, phase 1
}
