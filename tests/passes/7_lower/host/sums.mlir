// RUN: msc opt --passes=host %s
// The sum over micro-batches of the gradient is kept on the host, where the update reads it; that of the other table stays
// on the GPU, where its norm is computed.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xi32>, %g: tensor<4x8xf32>, %first: tensor<i1>, %s: tensor<64x8xf32>, %r: tensor<64x8xf32>):
    %0 = "msc.scatter_add"(%x, %g) {primitive_target = "CPU", rows = 64 : i64} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<64x8xf32>
    %1 = "msc.add"(%s, %0) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %2 = "msc.select"(%first, %0, %1) : (tensor<i1>, tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %3 = "msc.scatter_add"(%x, %g) {primitive_target = "CPU", rows = 64 : i64} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<64x8xf32>
    %4 = "msc.add"(%r, %3) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    "msc.return"(%2, %4) : (tensor<64x8xf32>, tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.class = "FB", msc.name = "g", msc.role = "carried"},
                   {msc.class = "FB", msc.name = "first", msc.role = "carried"},
                   {msc.name = "s", msc.role = "sum"},
                   {msc.name = "r", msc.role = "sum"}],
      sym_name = "train.B",
      ties = [3, 4]} : () -> ()
  "msc.func"() ({
  ^bb0(%s: tensor<64x8xf32>, %r: tensor<64x8xf32>, %t: tensor<64x8xf32>, %u: tensor<64x8xf32>):
    %0 = "msc.sgd"(%t, %s) {lr = 5.0e-01 : f32, primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %1 = "msc.mul"(%r, %r) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0, 1]} : (tensor<64x8xf32>) -> tensor<f32>
    %3 = "msc.sgd"(%u, %r) {lr = 5.0e-01 : f32, primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    "msc.return"(%0, %3, %2) : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "s", msc.role = "sum"},
                   {msc.name = "r", msc.role = "sum"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"}],
      sym_name = "train.U",
      ties = [2, 3, -1]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xi32>, %g: tensor<4x8xf32>, %first: tensor<i1>, %s: tensor<64x8xf32>, %r: tensor<64x8xf32>):
    %0 = "msc.stash"(%first) {home = "cpu"} : (tensor<i1>) -> tensor<i1> loc("first")
    %1 = "msc.stash"(%g) {home = "cpu"} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("g")
    %2 = "msc.stash"(%x) {home = "cpu"} : (tensor<4xi32>) -> tensor<4xi32> loc("x")
    %3 = "msc.scatter_add"(%2, %1) {primitive_target = "CPU", rows = 64 : i64} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<64x8xf32>
    %4 = "msc.add"(%s, %3) {primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %5 = "msc.select"(%0, %3, %4) {primitive_target = "CPU"} : (tensor<i1>, tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %6 = "msc.scatter_add"(%2, %1) {primitive_target = "CPU", rows = 64 : i64} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<64x8xf32>
    %7 = "msc.fetch"(%6) : (tensor<64x8xf32>) -> tensor<64x8xf32>
    %8 = "msc.add"(%r, %7) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    "msc.return"(%5, %8) : (tensor<64x8xf32>, tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.class = "FB", msc.name = "g", msc.role = "carried"},
                   {msc.class = "FB", msc.name = "first", msc.role = "carried"},
                   {msc.home = "cpu", msc.name = "s", msc.role = "sum"},
                   {msc.name = "r", msc.role = "sum"}],
      sym_name = "train.B",
      ties = [3, 4]} : () -> ()
  "msc.func"() ({
  ^bb0(%s: tensor<64x8xf32>, %r: tensor<64x8xf32>, %t: tensor<64x8xf32>, %u: tensor<64x8xf32>):
    %0 = "msc.stash"(%r) {home = "cpu"} : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("r")
    %1 = "msc.sgd"(%t, %s) {lr = 5.0e-01 : f32, primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %2 = "msc.mul"(%r, %r) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<64x8xf32>) -> tensor<f32>
    %4 = "msc.sgd"(%u, %0) {lr = 5.0e-01 : f32, primitive_target = "CPU"} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    "msc.return"(%1, %4, %3) : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.home = "cpu", msc.name = "s", msc.role = "sum"},
                   {msc.name = "r", msc.role = "sum"},
                   {msc.home = "cpu", msc.name = "t", msc.role = "parameter"},
                   {msc.home = "cpu", msc.name = "u", msc.role = "parameter"}],
      sym_name = "train.U",
      ties = [2, 3, -1]} : () -> ()
}
