// RUN: msc opt --check-numerics --emit-nest %s
// A row three times: its largest, the sum of its exponentials, the quotients.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x40xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<6x40xf32>):
      %2 = "msc.softmax"(%1) {axis = -1 : i64} : (tensor<6x40xf32>) -> tensor<6x40xf32>
      "msc.yield"(%2) : (tensor<6x40xf32>) -> ()
    }) : (tensor<6x40xf32>) -> tensor<6x40xf32>
    "msc.return"(%0) : (tensor<6x40xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 6, grain 6, bytes 1920, flops 4080, buffers 0 1, dims 40
nest row lanes 8 phases 3 keeps_row dims 1 {
  axis items
  axis reduced baked 40 lane
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0: d0, a1]
  %2 = reduce f32 loose_max %1, phase 1
  %3 = sub f32 %1 %2, phase 1
  %4 = exp f32 %3, phase 1
  %5 = reduce f32 sum %4, phase 2
  %6 = div f32 %4 %5, phase 2
  store f32 b1[a0: d0, a1] %6, phase 3
}
