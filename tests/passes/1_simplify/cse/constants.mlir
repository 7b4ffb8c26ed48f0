// RUN: msc opt --passes=cse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2xf32>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.constant"() {value = dense<-0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "msc.constant"() {value = dense<0.0e+00> : tensor<f64>} : () -> tensor<f64>
    %4 = "msc.constant"() {value = dense<[1.0e+00, 2.0e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    %5 = "msc.constant"() {value = dense<[1.0e+00, 2.0e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    %6 = "msc.constant"() {value = dense<[1.0e+00, 3.0e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    "msc.return"(%0, %1, %2, %3, %4, %5, %6) : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2xf32>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.constant"() {value = dense<-0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.constant"() {value = dense<0.0e+00> : tensor<f64>} : () -> tensor<f64>
    %3 = "msc.constant"() {value = dense<[1.0e+00, 2.0e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    %4 = "msc.constant"() {value = dense<[1.0e+00, 3.0e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    "msc.return"(%0, %1, %0, %2, %3, %3, %4) : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
