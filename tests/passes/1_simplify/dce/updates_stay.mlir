// RUN: msc opt --passes=dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %g: tensor<4xf32>):
    %0 = "msc.sgd"(%w, %g) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>, %g: tensor<4xf32>):
    %0 = "msc.sgd"(%w, %g) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
