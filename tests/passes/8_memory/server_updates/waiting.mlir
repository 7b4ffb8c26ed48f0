// RUN: msc opt --passes=server_updates --split-input-file --verify-diagnostics --set 'parameter_server={"mode":"async"}' %s
// Workers that do not wait for one another cannot gather activations, nor update a parameter themselves.
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%dy: tensor<4x4xf32>, %w: tensor<4x4xf32>):
    // expected-error @below {{parameter_server.mode async: here workers wait for one another}}
    %0 = "msc.comm"(%dy) {dims = [8, 4], from = ["[{dp},{}]"], shape = [8, 4], to = ["[{},{}]"], verb = "all_gather"} : (tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.slice"(%0) {limit = [4, 4], start = [0, 0]} : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %2 = "msc.comm"(%1) {dims = [4, 4], from = ["[{},{}] partial={dp}"], shape = [4, 4], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = "msc.sgd"(%w, %2) {lr = 1.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%3) : (tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}], results = ["w"], sym_name = "train", ties = [1]} : () -> ()
}

// -----

module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  // expected-error @below {{parameter_server.mode async: parameter 'w' cannot live on servers}}
  "msc.func"() ({
  ^bb0(%dy: tensor<4x4xf32>, %w: tensor<4x4xf32>):
    %0 = "msc.sgd"(%w, %dy) {lr = 1.0e-01 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%0) : (tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}], results = ["w"], sym_name = "train", ties = [1]} : () -> ()
}
