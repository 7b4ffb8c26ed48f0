// RUN: msc opt --passes=expand --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>):
    %0 = "msc.mean_absolute_error"(%p, %t) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
    %1 = "msc.mean_absolute_error"(%p, %t) {reduction = "none"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    "msc.return"(%0, %1) : (tensor<f32>, tensor<4x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>):
    %0 = "msc.sub"(%p, %t) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.abs"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = "msc.reduce_sum"(%1) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %3 = "msc.sub"(%p, %t) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = "msc.abs"(%3) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    "msc.return"(%2, %4) : (tensor<f32>, tensor<4x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
