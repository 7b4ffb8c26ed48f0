// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>):
    %0 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.constant"() {value = dense<3.0e+00> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.pow"(%x, %0) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = "msc.pow"(%x, %1) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    "msc.return"(%2, %3) : (tensor<8xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>):
    %0 = "msc.constant"() {value = dense<3.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.mul"(%x, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = "msc.pow"(%x, %0) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    "msc.return"(%1, %2) : (tensor<8xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
