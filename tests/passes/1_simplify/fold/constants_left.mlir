// RUN: msc opt --passes=fold,dce %s
module {
  "msc.func"() ({
  ^bb0(%i: tensor<3xi32>):
    %0 = "msc.constant"() {value = dense<[1, 2]> : tensor<2xi32>} : () -> tensor<2xi32>
    %1 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %2 = "msc.div"(%0, %1) : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.broadcast_to"(%3) {shape = [20000]} : (tensor<f32>) -> tensor<20000xf32>
    %5 = "msc.constant"() {value = dense<[7, 9]> : tensor<2xi32>} : () -> tensor<2xi32>
    %6 = "msc.gather"(%0, %5) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    "msc.return"(%2, %4, %6) : (tensor<2xi32>, tensor<20000xf32>, tensor<2xi32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%i: tensor<3xi32>):
    %0 = "msc.constant"() {value = dense<[1, 2]> : tensor<2xi32>} : () -> tensor<2xi32>
    %1 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %2 = "msc.div"(%0, %1) : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
    %3 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.broadcast_to"(%3) {shape = [20000]} : (tensor<f32>) -> tensor<20000xf32>
    %5 = "msc.constant"() {value = dense<[7, 9]> : tensor<2xi32>} : () -> tensor<2xi32>
    %6 = "msc.gather"(%0, %5) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    "msc.return"(%2, %4, %6) : (tensor<2xi32>, tensor<20000xf32>, tensor<2xi32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
