// RUN: msc opt --check-numerics --emit-nest %s
// Zeros between elements: a remainder says where one stands.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<4x8xf32>):
      %2 = "msc.pad"(%1) {high = [0, 0], low = [0, 0], stride = [1, 3]} : (tensor<4x8xf32>) -> tensor<4x22xf32>
      "msc.yield"(%2) : (tensor<4x22xf32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x22xf32>
    "msc.return"(%0) : (tensor<4x22xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 88, grain 88, bytes 480, flops 330, buffers 0 1, dims 3 22 8
nest map lanes 4 dims 3 {
  axis items
  axis items baked 22 lane
  buffer f32
  buffer f32 out
  %1 = index i64 [a1]
  %2 = dim i64 d0
  %3 = dim i64 d1
  %4 = compare i1 below %1 %3
  %5 = const i64 0.0e+00
  %6 = rem i64 %1 %2
  %7 = compare i1 eq %6 %5
  %8 = and i1 %4 %7
  %9 = div i64 %1 %2
  %10 = load f32 b0[a0: d2] %9 %8
  %11 = const f32 0.0e+00
  %12 = select f32 %8 %10 %11
  store f32 b1[a0: d1, a1] %12
}
