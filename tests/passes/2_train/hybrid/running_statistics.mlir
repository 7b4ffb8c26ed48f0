// RUN: msc opt --set device_num=2 --set parallel_mode=hybrid_parallel --passes=hybrid %s
// What ranks renew from their parts of the batch becomes the mean of all ranks, but for a layerwise one.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2x2xf32>, %g: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>):
    %0:3 = "msc.batch_norm"(%x, %g, %b, %m, %v) {training = true} : (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>)
    %1 = "msc.mul"(%0#0, %0#0) : (tensor<4x3x2x2xf32>, tensor<4x3x2x2xf32>) -> tensor<4x3x2x2xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1, 2, 3]} : (tensor<4x3x2x2xf32>) -> tensor<f32>
    "msc.return"(%2, %0#1, %0#2) : (tensor<f32>, tensor<3xf32>, tensor<3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "ones", msc.name = "g", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "m", msc.role = "state"},
                   {msc.init = "ones", msc.layerwise_parallel = true, msc.name = "v", msc.role = "state"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "m.new", "v.new"],
      sym_name = "forward",
      ties = [-1, 3, 4]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2x2xf32>, %g: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>):
    %0:3 = "msc.batch_norm"(%x, %g, %b, %m, %v) {training = true} : (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>)
    %1 = "msc.mul"(%0#0, %0#0) : (tensor<4x3x2x2xf32>, tensor<4x3x2x2xf32>) -> tensor<4x3x2x2xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1, 2, 3]} : (tensor<4x3x2x2xf32>) -> tensor<f32>
    %3 = "msc.all_reduce"(%2) {axes = "{d}"} : (tensor<f32>) -> tensor<f32>
    %4 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.mul"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = "msc.all_reduce"(%0#1) {axes = "{d}"} : (tensor<3xf32>) -> tensor<3xf32>
    %7 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.mul"(%6, %7) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    "msc.return"(%5, %8, %0#2) : (tensor<f32>, tensor<3xf32>, tensor<3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "ones", msc.name = "g", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "m", msc.role = "state"},
                   {msc.init = "ones", msc.layerwise_parallel = true, msc.name = "v", msc.role = "state"}],
      loss = 0 : i64,
      manual = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "m.new", "v.new"],
      sym_name = "forward",
      ties = [-1, 3, 4]} : () -> ()
}
