// RUN: msc opt --passes=host,fuse --check-numerics %s
// The table and its state live on the host, where rows are looked up, added up and updated; the sum of a bag of rows is made
// there, since it is smaller than the rows, and the gradient of the table, since it is larger than that of the rows.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xi32>, %t: tensor<64x8xf32>, %w: tensor<4x8xf32>, %v: tensor<64x8xf32>):
    %0 = "msc.gather"(%t, %x) {primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<4x3xi32>) -> tensor<4x3x8xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [1]} : (tensor<4x3x8xf32>) -> tensor<4x8xf32>
    %2 = "msc.mul"(%1, %w) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<4x8xf32>) -> tensor<f32>
    %4 = "msc.reshape"(%w) {shape = [4, 1, 8]} : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
    %5 = "msc.broadcast_to"(%4) {shape = [4, 3, 8]} : (tensor<4x1x8xf32>) -> tensor<4x3x8xf32>
    %6 = "msc.scatter_add"(%x, %5) {primitive_target = "CPU", rows = 64 : i64} : (tensor<4x3xi32>, tensor<4x3x8xf32>) -> tensor<64x8xf32>
    %7:2 = "msc.adagrad"(%t, %v, %6) {lr = 5.0e-01 : f32, primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>)
    %8 = "msc.sgd"(%w, %1) {lr = 5.0e-01 : f32} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%3, %7#0, %8, %7#1) : (tensor<f32>, tensor<64x8xf32>, tensor<4x8xf32>, tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.owner = "t", msc.role = "state"}],
      sym_name = "train",
      ties = [-1, 1, 2, 3]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xi32>, %t: tensor<64x8xf32>, %w: tensor<4x8xf32>, %v: tensor<64x8xf32>):
    %0 = "msc.stash"(%w) {home = "cpu"} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("w")
    %1 = "msc.stash"(%x) {home = "cpu"} : (tensor<4x3xi32>) -> tensor<4x3xi32> loc("x")
    %2 = "msc.fused"(%t, %1) ({
    ^bb0(%3: tensor<64x8xf32>, %4: tensor<4x3xi32>):
      %5 = "msc.gather"(%3, %4) {primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<4x3xi32>) -> tensor<4x3x8xf32>
      %6 = "msc.reduce_sum"(%5) {dims = [1], primitive_target = "CPU"} : (tensor<4x3x8xf32>) -> tensor<4x8xf32>
      "msc.yield"(%6) : (tensor<4x8xf32>) -> ()
    }) {primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<4x3xi32>) -> tensor<4x8xf32>
    %7 = "msc.fetch"(%2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %8 = "msc.fused"(%7, %w) ({
    ^bb0(%9: tensor<4x8xf32>, %10: tensor<4x8xf32>):
      %11 = "msc.mul"(%9, %10) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %12 = "msc.reduce_sum"(%11) {dims = [0, 1]} : (tensor<4x8xf32>) -> tensor<f32>
      "msc.yield"(%12) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
    %13 = "msc.fused"(%0, %1) ({
    ^bb0(%14: tensor<4x8xf32>, %15: tensor<4x3xi32>):
      %16 = "msc.reshape"(%14) {primitive_target = "CPU", shape = [4, 1, 8]} : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
      %17 = "msc.broadcast_to"(%16) {primitive_target = "CPU", shape = [4, 3, 8]} : (tensor<4x1x8xf32>) -> tensor<4x3x8xf32>
      %18 = "msc.scatter_add"(%15, %17) {primitive_target = "CPU", rows = 64 : i64} : (tensor<4x3xi32>, tensor<4x3x8xf32>) -> tensor<64x8xf32>
      "msc.yield"(%18) : (tensor<64x8xf32>) -> ()
    }) {primitive_target = "CPU"} : (tensor<4x8xf32>, tensor<4x3xi32>) -> tensor<64x8xf32>
    %19:2 = "msc.adagrad"(%t, %v, %13) {lr = 5.0e-01 : f32, primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>)
    %20 = "msc.sgd"(%w, %7) {lr = 5.0e-01 : f32} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%8, %19#0, %20, %19#1) : (tensor<f32>, tensor<64x8xf32>, tensor<4x8xf32>, tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.home = "cpu", msc.name = "t", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.home = "cpu", msc.name = "v", msc.owner = "t", msc.role = "state"}],
      sym_name = "train",
      ties = [-1, 1, 2, 3]} : () -> ()
}
