// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=strategies,propagate %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>, %w.m: tensor<6x4xf32>, %w.v: tensor<6x4xf32>, %step: tensor<f32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[1, 2], [2, 1]]} : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32> loc("dense")
    %1 = "msc.matmul"(%x, %0) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<4x6xf32>, tensor<4x4xf32>) -> tensor<6x4xf32> loc("dense.grad")
    %2:3 = "msc.lamb_moments"(%w, %w.m, %w.v, %1, %step) : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<f32>) -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) loc("w.update")
    %3 = "msc.mul"(%w, %w) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("w.update")
    %4 = "msc.reduce_sum"(%3) {dims = [0, 1]} : (tensor<6x4xf32>) -> tensor<f32> loc("w.update")
    %5 = "msc.lamb_apply"(%w, %2#0, %4) {lr = 1.0e-01 : f64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32> loc("w.update")
    "msc.return"(%5, %2#1, %2#2) : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "step", msc.role = "state"}],
      sym_name = "train",
      ties = [1, 2, 3]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>, %w.m: tensor<6x4xf32>, %w.v: tensor<6x4xf32>, %step: tensor<f32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[1, 2], [2, 1]], sharding = {k = "{d}", m = "{}", n = "{}"}} : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32> loc("dense")
    %1 = "msc.matmul"(%x, %0) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<4x6xf32>, tensor<4x4xf32>) -> tensor<6x4xf32> loc("dense.grad")
    %2:3 = "msc.lamb_moments"(%w, %w.m, %w.v, %1, %step) : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<f32>) -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) loc("w.update")
    %3 = "msc.mul"(%w, %w) {by = "propagation", inherited = [{by = "dense", digits = "{d}"}], sharding = {A = "{d}"}} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("w.update")
    %4 = "msc.reduce_sum"(%3) {by = "propagation", dims = [0, 1], inherited = [{by = "w.update", digits = "{d}"}], sharding = {A = "{d}"}} : (tensor<6x4xf32>) -> tensor<f32> loc("w.update")
    %5 = "msc.lamb_apply"(%w, %2#0, %4) {lr = 1.0e-01 : f64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32> loc("w.update")
    "msc.return"(%5, %2#1, %2#2) : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "step", msc.role = "state"}],
      sym_name = "train",
      ties = [1, 2, 3]} : () -> ()
}
