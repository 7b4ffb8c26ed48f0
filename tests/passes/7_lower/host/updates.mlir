// RUN: msc opt --passes=host --check-numerics --set 'offload={"optimizer":"cpu","update":"cpu"}' %s
// The update of what has its state in the host's memory runs there, and what it updates lives there too; that of what is too
// small to live there stays on the GPU.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x32xf32>, %w: tensor<32x32xf32>, %b: tensor<32xf32>, %v: tensor<32x32xf32>, %u: tensor<32xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32>
    %1 = "msc.add"(%0, %b) : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<4x32xf32>) -> tensor<32xf32>
    %3 = "msc.matmul"(%x, %1) {transpose_a = true} : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<32x32xf32>
    %4:2 = "msc.adagrad"(%w, %v, %3) {lr = 5.0e-01 : f32} : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>)
    %5:2 = "msc.adagrad"(%b, %u, %2) {lr = 5.0e-01 : f32} : (tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>)
    "msc.return"(%4#0, %5#0, %4#1, %5#1) : (tensor<32x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "v", msc.owner = "w", msc.role = "state"},
                   {msc.name = "u", msc.owner = "b", msc.role = "state"}],
      sym_name = "train",
      ties = [1, 2, 3, 4]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x32xf32>, %w: tensor<32x32xf32>, %b: tensor<32xf32>, %v: tensor<32x32xf32>, %u: tensor<32xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32>
    %1 = "msc.add"(%0, %b) : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0]} : (tensor<4x32xf32>) -> tensor<32xf32>
    %3 = "msc.matmul"(%x, %1) {transpose_a = true} : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<32x32xf32>
    %4 = "msc.stash"(%3) {home = "cpu"} : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %5:2 = "msc.adagrad"(%w, %v, %4) {lr = 5.0e-01 : f32, primitive_target = "CPU"} : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>)
    %6:2 = "msc.adagrad"(%b, %u, %2) {lr = 5.0e-01 : f32} : (tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>)
    "msc.return"(%5#0, %6#0, %5#1, %6#1) : (tensor<32x32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.home = "cpu", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.home = "cpu", msc.name = "v", msc.owner = "w", msc.role = "state"},
                   {msc.name = "u", msc.owner = "b", msc.role = "state"}],
      sym_name = "train",
      ties = [1, 2, 3, 4]} : () -> ()
}
