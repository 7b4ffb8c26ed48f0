// RUN: msc opt --passes=server_updates --check-numerics --set 'parameter_server={"mode":"sync"}' %s
// Servers sum w's gradients, run its update, and count steps as workers do; v stays with the workers, which all have its gradient; so does u, whose sum is returned, too.
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%dy: tensor<4x4xf32>, %w: tensor<4x4xf32>, %m: tensor<4x4xf32>, %v: tensor<4x4xf32>, %u: tensor<4x4xf32>, %step: tensor<f32>):
    %0 = "msc.exp"(%dy) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {dims = [4, 4], from = ["[{},{}] partial={dp}"], shape = [4, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.sum")
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.add"(%step, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("step")
    %4 = "msc.mul"(%1, %3) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("w.scaled")
    %5:2 = "msc.momentum"(%w, %m, %4) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) loc("w")
    %6 = "msc.sgd"(%v, %dy) {lr = 1.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("v")
    %7 = "msc.comm"(%dy) {dims = [4, 4], from = ["[{},{}] partial={dp}"], shape = [4, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("u.sum")
    %8 = "msc.sgd"(%u, %7) {lr = 1.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("u")
    "msc.return"(%5#0, %5#1, %6, %8, %3, %7) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "m", msc.owner = "w", msc.role = "state"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "step", msc.role = "state"}],
      sym_name = "train",
      ties = [1, 2, 3, 4, 5, -1]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%dy: tensor<4x4xf32>, %w: tensor<4x4xf32>, %m: tensor<4x4xf32>, %v: tensor<4x4xf32>, %u: tensor<4x4xf32>, %step: tensor<f32>):
    %0 = "msc.exp"(%dy) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {dims = [4, 4], from = ["[{},{}] partial={dp}"], served = 1 : i64, shape = [4, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.sum")
    %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.add"(%step, %2) {served = 2 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("step")
    %4 = "msc.mul"(%1, %3) {served = 1 : i64} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("w.scaled")
    %5:2 = "msc.momentum"(%w, %m, %4) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64, served = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) loc("w")
    %6 = "msc.sgd"(%v, %dy) {lr = 1.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("v")
    %7 = "msc.comm"(%dy) {dims = [4, 4], from = ["[{},{}] partial={dp}"], shape = [4, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("u.sum")
    %8 = "msc.sgd"(%u, %7) {lr = 1.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("u")
    "msc.return"(%5#0, %5#1, %6, %8, %3, %7) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "m", msc.owner = "w", msc.role = "state"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "step", msc.role = "state"}],
      sym_name = "train",
      ties = [1, 2, 3, 4, 5, -1]} : () -> ()
}
