// RUN: msc opt --emit-nest %s
// On a GPU. A thread has vectors to itself.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x20xf32>, %b: tensor<20xf32>):
    %0 = "msc.fused"(%x, %b) ({
    ^bb0(%1: tensor<6x20xf32>, %2: tensor<20xf32>):
      %3 = "msc.add"(%1, %2) : (tensor<6x20xf32>, tensor<20xf32>) -> tensor<6x20xf32>
      %4 = "msc.gelu"(%3) {form = "tanh"} : (tensor<6x20xf32>) -> tensor<6x20xf32>
      %5 = "msc.mul"(%4, %1) : (tensor<6x20xf32>, tensor<6x20xf32>) -> tensor<6x20xf32>
      "msc.yield"(%5) : (tensor<6x20xf32>) -> ()
    }) : (tensor<6x20xf32>, tensor<20xf32>) -> tensor<6x20xf32>
    "msc.return"(%0) : (tensor<6x20xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 120, grain 1024, bytes 1040, flops 2880, buffers 0 1 2, dims 20
nest map gpu lanes 4 threads 256 team 1 per_block 1024 narrow dims 1 {
  axis items
  axis items baked 20 lane
  buffer f32
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0: d0, a1]
  %2 = load f32 b1[a1]
  %3 = add f32 %1 %2
  %4 = const f32 1.0e+00
  %5 = mul f32 %3 %3
  %6 = mul f32 %5 %3
  %7 = const f32 4.4715e-02
  %8 = mul f32 %6 %7
  %9 = add f32 %3 %8
  %10 = const f32 1.5957691216057308e+00
  %11 = mul f32 %9 %10
  %12 = neg f32 %11
  %13 = exp f32 %12
  %14 = add f32 %4 %13
  %15 = div f32 %4 %14
  %16 = mul f32 %3 %15
  %17 = mul f32 %16 %1
  store f32 b2[a0: d0, a1] %17
}
