// RUN: msc opt --passes=expand --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>):
    %0 = "msc.mean_absolute_error"(%p, %t) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32> loc("error"("net.py":7:3))
    "msc.return"(%0) : (tensor<f32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>):
    %0 = "msc.sub"(%p, %t) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("error"("net.py":7:3))
    %1 = "msc.abs"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("error"("net.py":7:3))
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32> loc("error"("net.py":7:3))
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
