// RUN: msc opt --passes=fuse --check-numerics %s
// What a kernel only reshapes a reader behind it gets as a view, not as a copy from the kernel; of an argument, which
// may be overwritten before it is read, it gets the copy.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x8xf32>, %p: tensor<2x4x8xf32>):
    %0 = "msc.batch_matmul"(%x, %w) : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.exp"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [1]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %4 = "msc.reshape"(%p) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    %5 = "msc.exp"(%4) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = "msc.reduce_sum"(%5) {dims = [1]} : (tensor<8x8xf32>) -> tensor<8xf32>
    %7 = "msc.matmul"(%1, %4) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%3, %6, %7) : (tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x8xf32>, %p: tensor<2x4x8xf32>):
    %0 = "msc.batch_matmul"(%x, %w) : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
    %1 = "msc.reshape"(%0) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.fused"(%0) ({
    ^bb0(%3: tensor<2x4x8xf32>):
      %4 = "msc.reshape"(%3) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
      %5 = "msc.exp"(%4) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %6 = "msc.reduce_sum"(%5) {dims = [1]} : (tensor<8x8xf32>) -> tensor<8xf32>
      "msc.yield"(%6) : (tensor<8xf32>) -> ()
    }) : (tensor<2x4x8xf32>) -> tensor<8xf32>
    %7:2 = "msc.fused"(%p) ({
    ^bb0(%8: tensor<2x4x8xf32>):
      %9 = "msc.reshape"(%8) {shape = [8, 8]} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
      %10 = "msc.exp"(%9) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %11 = "msc.reduce_sum"(%10) {dims = [1]} : (tensor<8x8xf32>) -> tensor<8xf32>
      "msc.yield"(%9, %11) : (tensor<8x8xf32>, tensor<8xf32>) -> ()
    }) : (tensor<2x4x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
    %12 = "msc.matmul"(%1, %7#0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%2, %7#1, %12) : (tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
