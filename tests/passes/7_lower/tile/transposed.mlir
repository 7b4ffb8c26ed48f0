// RUN: msc opt --passes=tile --check-numerics %s
// Few columns, transposed, are a map, but not of the elements of a tile: only the last product goes through its user tile by tile.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x24xf32>, %w: tensor<24x8xf32>, %y: tensor<4x24xf32>, %v: tensor<24x4xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<2x24xf32>, tensor<24x8xf32>) -> tensor<2x8xf32> loc("left")
    %1 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<2x8xf32>) -> tensor<8x2xf32> loc("turned")
    %2 = "msc.gemm"(%y, %v) : (tensor<4x24xf32>, tensor<24x4xf32>) -> tensor<4x4xf32> loc("right")
    %3 = "msc.fused"(%2) ({
    ^bb0(%4: tensor<4x4xf32>):
      %5 = "msc.transpose"(%4) {perm = [1, 0]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %6 = "msc.add"(%4, %5) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      "msc.yield"(%6) : (tensor<4x4xf32>) -> ()
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("symmetric")
    %7 = "msc.gemm"(%y, %v) : (tensor<4x24xf32>, tensor<24x4xf32>) -> tensor<4x4xf32> loc("again")
    %8 = "msc.fused"(%7) ({
    ^bb0(%9: tensor<4x4xf32>):
      %10 = "msc.tanh"(%9) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %11 = "msc.add"(%9, %10) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      "msc.yield"(%11) : (tensor<4x4xf32>) -> ()
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("elementwise")
    "msc.return"(%1, %3, %8) : (tensor<8x2xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x24xf32>, %w: tensor<24x8xf32>, %y: tensor<4x24xf32>, %v: tensor<24x4xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<2x24xf32>, tensor<24x8xf32>) -> tensor<2x8xf32> loc("left")
    %1 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<2x8xf32>) -> tensor<8x2xf32> loc("turned")
    %2 = "msc.gemm"(%y, %v) : (tensor<4x24xf32>, tensor<24x4xf32>) -> tensor<4x4xf32> loc("right")
    %3 = "msc.fused"(%2) ({
    ^bb0(%4: tensor<4x4xf32>):
      %5 = "msc.transpose"(%4) {perm = [1, 0]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %6 = "msc.add"(%4, %5) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      "msc.yield"(%6) : (tensor<4x4xf32>) -> ()
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("symmetric")
    %7 = "msc.gemm"(%y, %v) {tile = 1 : i64} : (tensor<4x24xf32>, tensor<24x4xf32>) -> tensor<4x4xf32> loc("again")
    %8 = "msc.fused"(%7) ({
    ^bb0(%9: tensor<4x4xf32>):
      %10 = "msc.tanh"(%9) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %11 = "msc.add"(%9, %10) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      "msc.yield"(%11) : (tensor<4x4xf32>) -> ()
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("elementwise")
    "msc.return"(%1, %3, %8) : (tensor<8x2xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
