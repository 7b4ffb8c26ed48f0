// RUN: msc opt --passes=expand --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>, %d: tensor<f32>):
    %0 = "msc.vjp"(%p, %t, %d) {of = [0], op = "mean_absolute_error", reduction = "sum", wrt = [1]} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    "msc.return"(%0) : (tensor<4x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>, %d: tensor<f32>):
    %0 = "msc.sub"(%p, %t) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.broadcast_to"(%d) {shape = [4, 3]} : (tensor<f32>) -> tensor<4x3xf32>
    %2 = "msc.sign"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.mul"(%1, %2) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = "msc.neg"(%3) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    "msc.return"(%4) : (tensor<4x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
