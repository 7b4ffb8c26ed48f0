// RUN: msc opt --emit-nest %s
// Rows by number; a number out of range is a fault, and reads nothing.
module {
  "msc.func"() ({
  ^bb0(%t: tensor<10x12xf32>, %i: tensor<7xi32>):
    %0 = "msc.fused"(%t, %i) ({
    ^bb0(%1: tensor<10x12xf32>, %2: tensor<7xi32>):
      %3 = "msc.gather"(%1, %2) {axis = 0 : i64} : (tensor<10x12xf32>, tensor<7xi32>) -> tensor<7x12xf32>
      "msc.yield"(%3) : (tensor<7x12xf32>) -> ()
    }) : (tensor<10x12xf32>, tensor<7xi32>) -> tensor<7x12xf32>
    "msc.return"(%0) : (tensor<7x12xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 84, grain 84, bytes 700, flops 28, buffers 0 1 2 3, dims 10 12
nest map lanes 8 dims 2 {
  axis items
  axis items baked 12 lane
  buffer f32
  buffer i32
  buffer f32 out
  buffer i32 out flag
  %1 = load i32 b1[a0]
  %2 = cast i64 %1
  %3 = dim i64 d0
  %4 = compare i1 below %2 %3
  check i1 index %4
  %6 = dim i64 d1
  %7 = mul i64 %2 %6
  %8 = load f32 b0[a1] %7 %4
  store f32 b2[a0: d1, a1] %8
}
