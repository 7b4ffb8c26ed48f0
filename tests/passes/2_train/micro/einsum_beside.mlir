// RUN: msc opt --passes=micro --set micro_size=2 %s
// Positions, the same for every sample, are multiplied by a weight before they meet the samples.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2xf32>, %p: tensor<3x5xf32>, %w: tensor<5x2xf32>):
    %0 = "msc.expand_dims"(%p) {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x1x5xf32>
    %1 = "msc.broadcast_to"(%0) {shape = [3, 4, 5]} : (tensor<3x1x5xf32>) -> tensor<3x4x5xf32>
    %2 = "msc.einsum"(%1, %w) {equation = "ibh,hn->ibn"} : (tensor<3x4x5xf32>, tensor<5x2xf32>) -> tensor<3x4x2xf32>
    %3 = "msc.einsum"(%x, %2) {equation = "bin,jbn->bij"} : (tensor<4x3x2xf32>, tensor<3x4x2xf32>) -> tensor<4x3x3xf32>
    %4 = "msc.reduce_mean"(%3) {dims = [0, 1, 2]} : (tensor<4x3x3xf32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "p", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x2xf32>, %p: tensor<3x5xf32>, %w: tensor<5x2xf32>, %micro: tensor<i64>):
    %0 = "msc.expand_dims"(%p) {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x1x5xf32>
    %1 = "msc.broadcast_to"(%0) {shape = [3, 4, 5]} : (tensor<3x1x5xf32>) -> tensor<3x4x5xf32>
    %2 = "msc.einsum"(%1, %w) {equation = "ibh,hn->ibn"} : (tensor<3x4x5xf32>, tensor<5x2xf32>) -> tensor<3x4x2xf32>
    %3 = "msc.broadcast_to"(%0) {shape = [3, 2, 5]} : (tensor<3x1x5xf32>) -> tensor<3x2x5xf32>
    %4 = "msc.einsum"(%3, %w) {equation = "ibh,hn->ibn"} : (tensor<3x2x5xf32>, tensor<5x2xf32>) -> tensor<3x2x2xf32>
    %5 = "msc.einsum"(%x, %4) {equation = "bin,jbn->bij"} : (tensor<2x3x2xf32>, tensor<3x2x2xf32>) -> tensor<2x3x3xf32>
    %6 = "msc.reduce_mean"(%5) {dims = [0, 1, 2]} : (tensor<2x3x3xf32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "p", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 5.0e-01 : f64,
      micro = 2 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
