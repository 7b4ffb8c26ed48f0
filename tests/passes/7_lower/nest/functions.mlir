// RUN: msc opt --check-numerics --emit-nest %s
// Functions of one number, of whole vectors.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x24xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<4x24xf32>):
      %2 = "msc.sqrt"(%1) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %3 = "msc.erf"(%2) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %4 = "msc.sin"(%3) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %5 = "msc.cos"(%4) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %6 = "msc.atan"(%5) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      "msc.yield"(%6) : (tensor<4x24xf32>) -> ()
    }) : (tensor<4x24xf32>) -> tensor<4x24xf32>
    "msc.return"(%0) : (tensor<4x24xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 96, grain 96, bytes 768, flops 6624, buffers 0 1
nest map lanes 8 {
  axis items lane
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0]
  %2 = sqrt f32 %1
  %3 = erf f32 %2
  %4 = sin f32 %3
  %5 = cos f32 %4
  %6 = atan f32 %5
  store f32 b1[a0] %6
}
