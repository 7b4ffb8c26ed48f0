// RUN: msc opt --check-numerics --emit-nest %s
// Rounding, signs, the larger and the smaller, powers.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x24xf32>, %y: tensor<4x24xf32>):
    %0 = "msc.fused"(%x, %y) ({
    ^bb0(%1: tensor<4x24xf32>, %2: tensor<4x24xf32>):
      %3 = "msc.floor"(%1) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %4 = "msc.ceil"(%2) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %5 = "msc.sub"(%3, %4) : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
      %6 = "msc.round"(%5) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %7 = "msc.abs"(%6) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %8 = "msc.sign"(%2) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %9 = "msc.mul"(%7, %8) : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
      %10 = "msc.relu"(%9) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %11 = "msc.max"(%10, %1) : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
      %12 = "msc.min"(%11, %2) : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
      %13 = "msc.exp"(%1) : (tensor<4x24xf32>) -> tensor<4x24xf32>
      %14 = "msc.pow"(%13, %2) : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
      %15 = "msc.add"(%12, %14) : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
      "msc.yield"(%15) : (tensor<4x24xf32>) -> ()
    }) : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
    "msc.return"(%0) : (tensor<4x24xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 96, grain 96, bytes 1152, flops 5856, buffers 0 1 2
nest map lanes 8 {
  axis items lane
  buffer f32
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0]
  %2 = floor f32 %1
  %3 = load f32 b1[a0]
  %4 = ceil f32 %3
  %5 = sub f32 %2 %4
  %6 = nearest f32 %5
  %7 = abs f32 %6
  %8 = sign f32 %3
  %9 = mul f32 %7 %8
  %10 = relu f32 %9
  %11 = max f32 %10 %1
  %12 = min f32 %11 %3
  %13 = exp f32 %1
  %14 = pow f32 %13 %3
  %15 = add f32 %12 %14
  store f32 b2[a0] %15
}
