// RUN: msc opt --check-numerics --emit-nest %s
// f16 and bf16 are computed as f32; what a cast rounds is rounded.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<40xf16>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<40xf16>):
      %2 = "msc.cast"(%1) {dtype = "bf16"} : (tensor<40xf16>) -> tensor<40xbf16>
      %3 = "msc.tanh"(%2) : (tensor<40xbf16>) -> tensor<40xbf16>
      "msc.yield"(%3) : (tensor<40xbf16>) -> ()
    }) : (tensor<40xf16>) -> tensor<40xbf16>
    "msc.return"(%0) : (tensor<40xbf16>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 40, grain 40, bytes 160, flops 640, buffers 0 1
nest map lanes 8 {
  axis items lane
  buffer f16
  buffer bf16 out
  %1 = load f32 b0[a0]
  %2 = round f32 bf16 %1
  %3 = tanh f32 %2
  store f32 b1[a0] %3
}
