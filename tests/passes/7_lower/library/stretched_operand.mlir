// RUN: msc opt --passes=library --check-numerics %s
// An operand that only some products of the batch share is repeated; one that all share is read again.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x8x4xf32>, %w: tensor<3x4x6xf32>, %v: tensor<1x1x6x5xf32>):
    %0 = "msc.batch_matmul"(%x, %w) : (tensor<2x3x8x4xf32>, tensor<3x4x6xf32>) -> tensor<2x3x8x6xf32>
    %1 = "msc.batch_matmul"(%0, %v) : (tensor<2x3x8x6xf32>, tensor<1x1x6x5xf32>) -> tensor<2x3x8x5xf32>
    "msc.return"(%1) : (tensor<2x3x8x5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x8x4xf32>, %w: tensor<3x4x6xf32>, %v: tensor<1x1x6x5xf32>):
    %0 = "msc.broadcast_to"(%w) {shape = [2, 3, 4, 6]} : (tensor<3x4x6xf32>) -> tensor<2x3x4x6xf32>
    %1 = "msc.gemm"(%x, %0) {generated = true} : (tensor<2x3x8x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x8x6xf32>
    %2 = "msc.gemm"(%1, %v) {generated = true} : (tensor<2x3x8x6xf32>, tensor<1x1x6x5xf32>) -> tensor<2x3x8x5xf32>
    "msc.return"(%2) : (tensor<2x3x8x5xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
