// RUN: msc opt --emit-nest %s
// On a GPU, in whatever order: zeros first, then all positions at once.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%i: tensor<7xi32>, %u: tensor<7x12xf32>):
    %0 = "msc.fused"(%i, %u) ({
    ^bb0(%1: tensor<7xi32>, %2: tensor<7x12xf32>):
      %3 = "msc.scatter_add"(%1, %2) {any_order = true, axis = 0 : i64, rows = 10 : i64} : (tensor<7xi32>, tensor<7x12xf32>) -> tensor<10x12xf32>
      "msc.yield"(%3) : (tensor<10x12xf32>) -> ()
    }) : (tensor<7xi32>, tensor<7x12xf32>) -> tensor<10x12xf32>
    "msc.return"(%0) : (tensor<10x12xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused_zeros: extent 120, grain 1024, bytes 480, flops 0, buffers 2, dims 10 12
nest map gpu lanes 4 threads 256 team 1 per_block 1024 narrow dims 2 {
  axis items lane
  buffer f32 out
  %1 = const f32 0.0e+00
  store f32 b0[a0] %1
}
// fused: extent 84, grain 1024, bytes 700, flops 112, buffers 0 1 2 3, dims 10 12
nest map gpu lanes 4 threads 256 team 1 per_block 1024 narrow dims 2 {
  axis items
  axis items baked 12 lane
  buffer i32
  buffer f32
  buffer f32 out
  buffer i32 out flag
  %1 = load i32 b0[a0]
  %2 = cast i64 %1
  %3 = dim i64 d0
  %4 = compare i1 below %2 %3
  check i1 index %4
  %6 = load f32 b1[a0: d1, a1]
  %7 = dim i64 d1
  %8 = mul i64 %2 %7
  scatter f32 at_once b2[a1] %8 %6 %4
}
