// RUN: msc opt --passes=allocate --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%g: tensor<2x20x36xf32>, %w: tensor<2x36x20xf32>):
    %0 = "msc.fused"(%g, %w) ({
    ^bb0(%1: tensor<2x20x36xf32>, %2: tensor<2x36x20xf32>):
      %3 = "msc.transpose"(%1) {perm = [0, 2, 1]} : (tensor<2x20x36xf32>) -> tensor<2x36x20xf32>
      %4 = "msc.sgd"(%2, %3) {lr = 1.0e-01 : f64} : (tensor<2x36x20xf32>, tensor<2x36x20xf32>) -> tensor<2x36x20xf32>
      "msc.yield"(%4) : (tensor<2x36x20xf32>) -> ()
    }) : (tensor<2x20x36xf32>, tensor<2x36x20xf32>) -> tensor<2x36x20xf32>
    "msc.return"(%0) : (tensor<2x36x20xf32>) -> ()
  }) {arg_attrs = [{msc.name = "g", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      results = ["w"],
      sym_name = "train",
      ties = [1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%g: tensor<2x20x36xf32>, %w: tensor<2x36x20xf32>):
    %0 = "msc.fused"(%g, %w) ({
    ^bb0(%1: tensor<2x20x36xf32>, %2: tensor<2x36x20xf32>):
      %3 = "msc.transpose"(%1) {perm = [0, 2, 1]} : (tensor<2x20x36xf32>) -> tensor<2x36x20xf32>
      %4 = "msc.sgd"(%2, %3) {lr = 1.0e-01 : f64} : (tensor<2x36x20xf32>, tensor<2x36x20xf32>) -> tensor<2x36x20xf32>
      "msc.yield"(%4) : (tensor<2x36x20xf32>) -> ()
    }) {place = [-2]} : (tensor<2x20x36xf32>, tensor<2x36x20xf32>) -> tensor<2x36x20xf32>
    "msc.return"(%0) : (tensor<2x36x20xf32>) -> ()
  }) {arg_attrs = [{msc.name = "g", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      results = ["w"],
      scratch = 0 : i64,
      sym_name = "train",
      ties = [1]} : () -> ()
}
