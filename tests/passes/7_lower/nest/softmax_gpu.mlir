// RUN: msc opt --emit-nest %s
// On a GPU. A team of threads for each row.
module attributes {msc.target = "cuda"} {
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
// fused: extent 6, grain 4, bytes 1920, flops 4080, buffers 0 1, dims 40
nest row gpu lanes 4 phases 3 threads 128 team 32 per_block 4 narrow dims 1 {
  axis items
  axis reduced baked 40 lane team
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
