// RUN: msc opt --emit-nest %s
// On a GPU. Squares go through shared memory.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<40x24xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<40x24xf32>):
      %2 = "msc.transpose"(%1) {perm = [1, 0]} : (tensor<40x24xf32>) -> tensor<24x40xf32>
      %3 = "msc.neg"(%2) : (tensor<24x40xf32>) -> tensor<24x40xf32>
      "msc.yield"(%3) : (tensor<24x40xf32>) -> ()
    }) : (tensor<40x24xf32>) -> tensor<24x40xf32>
    "msc.return"(%0) : (tensor<24x40xf32>) -> ()
  }) {results = ["y0"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
// fused: extent 2, grain 1, bytes 7680, flops 960, buffers 0 1, dims 24 40
nest transpose gpu lanes 1 threads 256 team 1 per_block 1 narrow dims 2 {
  axis items size d0 across
  axis items baked 40 lane
  buffer f32
  buffer f32 out
  %1 = load f32 b0[a0, a1: d0]
  %2 = neg f32 %1
  store f32 b1[a0: d1, a1] %2
}
