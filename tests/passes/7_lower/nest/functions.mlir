// RUN: msc opt --check-numerics --emit-nest %s
// Functions of one number, of whole vectors.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x24xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<4x24xf32>):
      %2 = "msc.exp"(%1) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %3 = "msc.log2"(%2) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %4 = "msc.exp"(%3) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %5 = "msc.log10"(%4) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %6 = "msc.exp"(%5) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %7 = "msc.sqrt"(%6) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %8 = "msc.erf"(%7) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %9 = "msc.sin"(%8) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %10 = "msc.cos"(%9) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %11 = "msc.atan"(%10) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      "msc.yield"(%11) : (tensor<4x24xf32>) -> ()
    }) : (tensor<4x24xf32>) -> tensor<4x24xf32>
    "msc.return"(%0) : (tensor<4x24xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 96, grain 96, bytes 768, flops 11424, buffers 0 1
nest map lanes 8 {
  axis items lane
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0]
  %2 = exp f32 %1
  %3 = log2 f32 %2
  %4 = exp f32 %3
  %5 = log10 f32 %4
  %6 = exp f32 %5
  %7 = sqrt f32 %6
  %8 = erf f32 %7
  %9 = sin f32 %8
  %10 = cos f32 %9
  %11 = atan f32 %10
  store f32 b1[a0] %11
}
