// RUN: msc opt --check-numerics --emit-nest %s
// Zeros around an operand: a guard per element.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<5x7xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<5x7xf32>):
      %2 = "msc.pad"(%1) {high = [0, 2], low = [1, 0], value = 5.0e-01 : f64} : (tensor<5x7xf32>) -> tensor<6x9xf32>
      "msc.yield"(%2) : (tensor<6x9xf32>) -> ()
    }) : (tensor<5x7xf32>) -> tensor<6x9xf32>
    "msc.return"(%0) : (tensor<6x9xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 54, grain 54, bytes 356, flops 123, buffers 0 1, dims 5 7 -1 -7 9, scalars 0.5
nest map lanes 8 dims 5 scalars 1 {
  axis items
  axis items baked 9 lane
  buffer f32
  buffer f32 out
  %1 = dim i64 d0
  %2 = index i64 [a0, d2]
  %3 = compare i1 below %2 %1
  %4 = dim i64 d1
  %5 = index i64 [a1]
  %6 = compare i1 below %5 %4
  %7 = and i1 %3 %6
  %8 = load f32 b0[a0: d1, a1, d3] none %7
  %9 = scalar f32 s0
  %10 = select f32 %7 %8 %9
  store f32 b1[a0: d4, a1] %10
}
