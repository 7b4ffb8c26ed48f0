// RUN: msc opt --check-numerics --emit-nest %s
// The mean over rows of what is reduced in each: a tail around the phases of a row.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x30xf32>, %t: tensor<6x30xf32>):
    %0 = "msc.fused"(%x, %t) ({
    ^bb0(%1: tensor<6x30xf32>, %2: tensor<6x30xf32>):
      %3 = "msc.softmax_cross_entropy"(%1, %2) {reduction = "mean"} : (tensor<6x30xf32>, tensor<6x30xf32>) -> tensor<f32>
      "msc.yield"(%3) : (tensor<f32>) -> ()
    }) : (tensor<6x30xf32>, tensor<6x30xf32>) -> tensor<f32>
    "msc.return"(%0) : (tensor<f32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 1, grain 1, bytes 1444, flops 3142, buffers 0 1 2, dims 6 30, scalars 6
nest row lanes 8 phases 2 keeps_row dims 2 scalars 1 {
  axis tail size d0
  axis reduced baked 30 lane
  buffer f32
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0: d1, a1]
  %2 = reduce f32 loose_max %1, phase 1
  %3 = sub f32 %1 %2, phase 1
  %4 = exp f32 %3, phase 1
  %5 = reduce f32 sum %4, phase 2
  %6 = log f32 %5, phase 2
  %7 = load f32 b1[a0: d1, a1]
  %8 = sub f32 %2 %1, phase 1
  %9 = mul f32 %7 %8, phase 1
  %10 = reduce f32 sum %9, phase 2
  %11 = reduce f32 sum %7, phase 1
  %12 = mul f32 %6 %11, phase 2
  %13 = add f32 %12 %10, phase 2
  %14 = reduce f32 sum %13, phase 2, level 1
  %15 = scalar f32 s0
  %16 = div f32 %14 %15, phase 2, level 1
  store f32 b2[0] %16, phase 2, level 1
}
