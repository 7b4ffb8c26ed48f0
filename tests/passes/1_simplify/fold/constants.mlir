// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.constant"() {value = dense<[1.0e+00, 2.0e+00, 3.0e+00, 4.0e+00]> : tensor<4xf32>} : () -> tensor<4xf32>
    %1 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.mul"(%0, %1) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %3 = "msc.sqrt"(%2) : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "msc.add"(%x, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.broadcast_to"(%1) {shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %6 = "msc.exp"(%5) : (tensor<4xf32>) -> tensor<4xf32>
    %7 = "msc.add"(%4, %6) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %8 = "msc.compare"(%0, %1) {predicate = "gt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
    %9 = "msc.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %10 = "msc.matmul"(%9, %9) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    "msc.return"(%7, %8, %10) : (tensor<4xf32>, tensor<4xi1>, tensor<2x2xi32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.constant"() {value = dense<[7.0710677e-01, 1.0e+00, 1.2247449e+00, 1.4142135e+00]> : tensor<4xf32>} : () -> tensor<4xf32>
    %2 = "msc.add"(%x, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.broadcast_to"(%0) {shape = [4]} : (tensor<f32>) -> tensor<4xf32>
    %4 = "msc.exp"(%3) : (tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.add"(%2, %4) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %6 = "msc.constant"() {value = dense<true> : tensor<4xi1>} : () -> tensor<4xi1>
    %7 = "msc.constant"() {value = dense<[[7, 10], [15, 22]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "msc.return"(%5, %6, %7) : (tensor<4xf32>, tensor<4xi1>, tensor<2x2xi32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
