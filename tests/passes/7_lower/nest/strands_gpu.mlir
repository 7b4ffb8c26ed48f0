// RUN: msc opt --emit-nest %s
// What does not depend on each other gets threads of its own.  All may need the rate; a concat's parts are one strand.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%w: tensor<24xf32>, %g: tensor<24xf32>, %x: tensor<16xf32>, %y: tensor<8xf32>, %rate: tensor<f32>):
    %0:2 = "msc.fused"(%w, %g, %x, %y, %rate) ({
    ^bb0(%1: tensor<24xf32>, %2: tensor<24xf32>, %3: tensor<16xf32>, %4: tensor<8xf32>, %5: tensor<f32>):
      %6 = "msc.mul"(%2, %5) : (tensor<24xf32>, tensor<f32>) -> tensor<24xf32>
      %7 = "msc.sub"(%1, %6) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
      %8 = "msc.mul"(%1, %5) : (tensor<24xf32>, tensor<f32>) -> tensor<24xf32>
      %9 = "msc.sub"(%2, %8) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
      "msc.yield"(%7, %9) : (tensor<24xf32>, tensor<24xf32>) -> ()
    }) : (tensor<24xf32>, tensor<24xf32>, tensor<16xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<24xf32>, tensor<24xf32>)
    %10:2 = "msc.fused"(%w, %g, %x, %y, %rate) ({
    ^bb0(%11: tensor<24xf32>, %12: tensor<24xf32>, %13: tensor<16xf32>, %14: tensor<8xf32>, %15: tensor<f32>):
      %16 = "msc.mul"(%11, %15) : (tensor<24xf32>, tensor<f32>) -> tensor<24xf32>
      %17 = "msc.mul"(%12, %15) : (tensor<24xf32>, tensor<f32>) -> tensor<24xf32>
      "msc.yield"(%16, %17) : (tensor<24xf32>, tensor<24xf32>) -> ()
    }) : (tensor<24xf32>, tensor<24xf32>, tensor<16xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<24xf32>, tensor<24xf32>)
    %18:2 = "msc.fused"(%x, %y, %rate) ({
    ^bb0(%19: tensor<16xf32>, %20: tensor<8xf32>, %21: tensor<f32>):
      %22 = "msc.concat"(%19, %20) {dim = 0 : i64} : (tensor<16xf32>, tensor<8xf32>) -> tensor<24xf32>
      %23 = "msc.concat"(%20, %19) {dim = 0 : i64} : (tensor<8xf32>, tensor<16xf32>) -> tensor<24xf32>
      "msc.yield"(%22, %23) : (tensor<24xf32>, tensor<24xf32>) -> ()
    }) : (tensor<16xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<24xf32>, tensor<24xf32>)
    "msc.return"(%0#0, %0#1, %10#0, %10#1, %18#0, %18#1) : (tensor<24xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>) -> ()
  }) {results = ["a", "b", "c", "d", "e", "f"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 24, grain 1024, bytes 388, flops 96, buffers 0 1 4 5 6
nest map gpu lanes 4 threads 256 team 1 per_block 1024 narrow {
  axis items lane
  buffer f32
  buffer f32
  buffer f32
  buffer f32 out
  buffer f32 out
  %1 = load f32 b0[a0]
  %2 = load f32 b1[a0]
  %3 = load f32 b2[0]
  %4 = mul f32 %2 %3
  %5 = sub f32 %1 %4
  store f32 b3[a0] %5
  %7 = mul f32 %1 %3
  %8 = sub f32 %2 %7
  store f32 b4[a0] %8
}
// fused: extent 48, grain 1024, bytes 388, flops 48, buffers 0 1 4 5 6
nest map gpu lanes 4 strands 2 threads 256 team 1 per_block 1024 narrow {
  axis items baked 24 lane
  buffer f32
  buffer f32
  buffer f32
  buffer f32 out
  buffer f32 out
  %1 = load f32 b0[a0]
  %2 = load f32 b2[0]
  %3 = mul f32 %1 %2
  store f32 b3[a0] %3
  %5 = load f32 b1[a0]
  %6 = mul f32 %5 %2
  store f32 b4[a0] %6
}
// fused: extent 48, grain 256, bytes 288, flops 144, buffers 0 1 3 4, dims 16 8 -16 -8
nest map gpu lanes 1 strands 2 threads 256 team 1 per_block 256 narrow dims 4 {
  axis items baked 24 lane
  buffer f32
  buffer f32
  buffer f32 out
  buffer f32 out
  %1 = dim i64 d0
  %2 = index i64 [a0]
  %3 = compare i1 below %2 %1
  %4 = load f32 b0[a0] none %3
  %5 = dim i64 d1
  %6 = index i64 [a0, d2]
  %7 = compare i1 below %6 %5
  %8 = load f32 b1[a0, d2] none %7
  %9 = select f32 %7 %8 %4
  store f32 b2[a0] %9
  %11 = compare i1 below %2 %5
  %12 = load f32 b1[a0] none %11
  %13 = index i64 [a0, d3]
  %14 = compare i1 below %13 %1
  %15 = load f32 b0[a0, d3] none %14
  %16 = select f32 %14 %15 %12
  store f32 b3[a0] %16
}
