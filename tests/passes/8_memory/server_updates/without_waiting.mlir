// RUN: msc opt --passes=server_updates --check-numerics --set 'parameter_server={"mode":"async"}' %s
// Each push updates w; the loss, a sum over all workers that no update reads, each worker takes for itself.
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%dy: tensor<4x4xf32>, %w: tensor<4x4xf32>):
    %0 = "msc.exp"(%dy) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {dims = [4, 4], from = ["[{},{}] partial={dp}"], shape = [4, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.sum")
    %2 = "msc.sgd"(%w, %1) {lr = 1.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("w")
    %3 = "msc.reduce_sum"(%dy) {dims = [0, 1]} : (tensor<4x4xf32>) -> tensor<f32> loc("loss")
    %4 = "msc.comm"(%3) {dims = [], from = ["[] partial={dp}"], shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32> loc("loss")
    "msc.return"(%4, %2) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%dy: tensor<4x4xf32>, %w: tensor<4x4xf32>):
    %0 = "msc.exp"(%dy) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {dims = [4, 4], from = ["[{},{}] partial={dp}"], served = 1 : i64, shape = [4, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("w.sum")
    %2 = "msc.sgd"(%w, %1) {lr = 1.0e-01 : f64, served = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("w")
    %3 = "msc.reduce_sum"(%dy) {dims = [0, 1]} : (tensor<4x4xf32>) -> tensor<f32> loc("loss")
    %4 = "msc.comm"(%3) {dims = [], from = ["[] partial={dp}"], served = 3 : i64, shape = [], to = ["[]"], verb = "all_reduce"} : (tensor<f32>) -> tensor<f32> loc("loss")
    "msc.return"(%4, %2) : (tensor<f32>, tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
