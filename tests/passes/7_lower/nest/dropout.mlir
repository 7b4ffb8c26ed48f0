// RUN: msc opt --emit-nest %s
// Dropout: each element has a random number by its place, the seed and the step.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x24xf32>, %y: tensor<i64>, %z: tensor<i64>):
    %0 = "msc.fused"(%x, %y, %z) ({
    ^bb0(%1: tensor<4x24xf32>, %2: tensor<i64>, %3: tensor<i64>):
      %4 = "msc.dropout"(%1, %2, %3) {rate = 2.5e-01 : f64} : (tensor<4x24xf32>, tensor<i64>, tensor<i64>) -> tensor<4x24xf32>
      "msc.yield"(%4) : (tensor<4x24xf32>) -> ()
    }) : (tensor<4x24xf32>, tensor<i64>, tensor<i64>) -> tensor<4x24xf32>
    "msc.return"(%0) : (tensor<4x24xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 96, grain 96, bytes 784, flops 4131, buffers 0 1 2 3, dims 1073741824 4294967295, scalars 1.33333
nest map lanes 8 dims 2 scalars 1 {
  axis items lane
  buffer f32
  buffer i64
  buffer i64
  buffer f32 out
  %1 = load f32 b0[a0]
  %2 = dim i64 d0
  %3 = cast ui32 %2
  %4 = load i64 b1[0]
  %5 = load i64 b2[0]
  %6 = const i64 0.0e+00
  %7 = dim i64 d1
  %8 = and i64 %5 %7
  %9 = add i64 %8 %6
  %10 = philox ui32 [a0] %6 %4 %9
  %11 = compare i1 ge %10 %3
  %12 = scalar f32 s0
  %13 = mul f32 %1 %12
  %14 = const f32 0.0e+00
  %15 = select f32 %11 %13 %14
  store f32 b3[a0] %15
}
