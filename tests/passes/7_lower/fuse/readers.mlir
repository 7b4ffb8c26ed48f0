// RUN: msc opt --passes=fuse %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%dh: tensor<1024x2048xbf16>, %gate: tensor<1024x2048xbf16>, %up: tensor<1024x2048xbf16>):
    %0 = "msc.silu"(%gate) : (tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
    %1 = "msc.mul"(%dh, %0) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
    %2 = "msc.mul"(%dh, %up) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
    "msc.return"(%1, %2) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%dh: tensor<1024x2048xbf16>, %gate: tensor<1024x2048xbf16>, %up: tensor<1024x2048xbf16>):
    %0:2 = "msc.fused"(%gate, %dh, %up) ({
    ^bb0(%1: tensor<1024x2048xbf16>, %2: tensor<1024x2048xbf16>, %3: tensor<1024x2048xbf16>):
      %4 = "msc.silu"(%1) : (tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
      %5 = "msc.mul"(%2, %4) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
      %6 = "msc.mul"(%2, %3) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
      "msc.yield"(%5, %6) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> ()
    }) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>)
    "msc.return"(%0#0, %0#1) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> ()
  }) {sym_name = "f"} : () -> ()
}
