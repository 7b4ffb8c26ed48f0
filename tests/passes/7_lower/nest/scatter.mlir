// RUN: msc opt --emit-nest %s
// Rows that are added to by number, in order, after they became zeros.
module {
  "msc.func"() ({
  ^bb0(%i: tensor<7xi32>, %u: tensor<7x12xf32>):
    %0 = "msc.fused"(%i, %u) ({
    ^bb0(%1: tensor<7xi32>, %2: tensor<7x12xf32>):
      %3 = "msc.scatter_add"(%1, %2) {axis = 0 : i64, rows = 10 : i64} : (tensor<7xi32>, tensor<7x12xf32>) -> tensor<10x12xf32>
      "msc.yield"(%3) : (tensor<10x12xf32>) -> ()
    }) : (tensor<7xi32>, tensor<7x12xf32>) -> tensor<10x12xf32>
    "msc.return"(%0) : (tensor<10x12xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 1, grain 1, bytes 700, flops 112, buffers 0 1 2 3, dims 10 12 7
nest scatter lanes 8 phases 1 dims 3 {
  axis items baked 12 lane
  axis reduced size d2
  buffer i32
  buffer f32
  buffer f32 out
  buffer i32 out flag
  %1 = load i32 b0[a1]
  %2 = cast i64 %1
  %3 = dim i64 d0
  %4 = compare i1 below %2 %3
  check i1 index %4, phase 1
  %6 = load f32 b1[a0, a1: d1]
  %7 = dim i64 d1
  fill f32 b2[a0] %3 %7
  %9 = mul i64 %2 %7
  scatter f32 in_order b2[a0] %9 %6 %4, phase 1
}
