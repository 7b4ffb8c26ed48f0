// RUN: msc opt --passes=fold --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
    %1 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.add"(%x, %0) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.sub"(%0, %x) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %4 = "msc.div"(%1, %x) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.pow"(%1, %x) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    "msc.return"(%2, %3, %4, %5) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
    %1 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.add"(%x, %0) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.sub"(%0, %x) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %4 = "msc.div"(%1, %x) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.pow"(%1, %x) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    "msc.return"(%2, %3, %4, %5) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
