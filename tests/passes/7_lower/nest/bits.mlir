// RUN: msc opt --check-numerics --emit-nest %s
// Bits of integers.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x24xi32>, %y: tensor<4x24xi32>):
    %0 = "msc.fused"(%x, %y) ({
    ^bb0(%1: tensor<4x24xi32>, %2: tensor<4x24xi32>):
      %3 = "msc.bitwise_or"(%1, %2) : (tensor<4x24xi32>, tensor<4x24xi32>) -> tensor<4x24xi32>
      %4 = "msc.bitwise_xor"(%3, %2) : (tensor<4x24xi32>, tensor<4x24xi32>) -> tensor<4x24xi32>
      %5 = "msc.shift_left"(%4, %2) : (tensor<4x24xi32>, tensor<4x24xi32>) -> tensor<4x24xi32>
      %6 = "msc.shift_right"(%5, %1) : (tensor<4x24xi32>, tensor<4x24xi32>) -> tensor<4x24xi32>
      %7 = "msc.bitwise_and"(%6, %1) : (tensor<4x24xi32>, tensor<4x24xi32>) -> tensor<4x24xi32>
      "msc.yield"(%7) : (tensor<4x24xi32>) -> ()
    }) : (tensor<4x24xi32>, tensor<4x24xi32>) -> tensor<4x24xi32>
    "msc.return"(%0) : (tensor<4x24xi32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 96, grain 96, bytes 1152, flops 864, buffers 0 1 2
nest map lanes 8 {
  axis items lane
  buffer i32
  buffer i32
  buffer i32 out
  %1 = load i32 b0[a0]
  %2 = load i32 b1[a0]
  %3 = or i32 %1 %2
  %4 = xor i32 %3 %2
  %5 = shl i32 %4 %2
  %6 = shr i32 %5 %1
  %7 = and i32 %6 %1
  store i32 b2[a0] %7
}
