// RUN: msc opt --passes=server_updates --check-numerics --set 'parameter_server={"mode":"async"}' %s
// Servers gather the numbers of rows and their gradients for a lazy update, of which workers that do not wait for one another push their own.
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%i: tensor<2xi64>, %dy: tensor<2x4xf32>, %w: tensor<8x4xf32>, %m: tensor<8x4xf32>):
    %0 = "msc.comm"(%i) {dims = [4], from = ["[{dp}]"], shape = [4], to = ["[{}]"], verb = "all_gather"} : (tensor<2xi64>) -> tensor<4xi64> loc("w.numbers")
    %1 = "msc.comm"(%dy) {dims = [4, 4], from = ["[{dp},{}]"], shape = [4, 4], to = ["[{},{}]"], verb = "all_gather"} : (tensor<2x4xf32>) -> tensor<4x4xf32> loc("w.rows")
    %2:2 = "msc.sort"(%0) : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi32>) loc("w.sorted")
    %3:2 = "msc.lazy_momentum"(%w, %m, %2#0, %2#1, %1) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xi64>, tensor<4xi32>, tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) loc("w")
    "msc.return"(%3#0, %3#1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "i", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "m", msc.owner = "w", msc.role = "state"}],
      sym_name = "train",
      ties = [2, 3]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%i: tensor<2xi64>, %dy: tensor<2x4xf32>, %w: tensor<8x4xf32>, %m: tensor<8x4xf32>):
    %0 = "msc.comm"(%i) {dims = [4], from = ["[{dp}]"], served = 1 : i64, shape = [4], to = ["[{}]"], verb = "all_gather"} : (tensor<2xi64>) -> tensor<4xi64> loc("w.numbers")
    %1 = "msc.comm"(%dy) {dims = [4, 4], from = ["[{dp},{}]"], served = 1 : i64, shape = [4, 4], to = ["[{},{}]"], verb = "all_gather"} : (tensor<2x4xf32>) -> tensor<4x4xf32> loc("w.rows")
    %2:2 = "msc.sort"(%0) {served = 1 : i64} : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi32>) loc("w.sorted")
    %3:2 = "msc.lazy_momentum"(%w, %m, %2#0, %2#1, %1) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64, served = 1 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xi64>, tensor<4xi32>, tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) loc("w")
    "msc.return"(%3#0, %3#1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "i", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "m", msc.owner = "w", msc.role = "state"}],
      sym_name = "train",
      ties = [2, 3]} : () -> ()
}
