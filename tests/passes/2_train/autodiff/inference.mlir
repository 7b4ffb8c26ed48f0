// RUN: msc opt --passes=autodiff --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
