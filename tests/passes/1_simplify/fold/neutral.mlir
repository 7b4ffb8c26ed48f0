// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %c: tensor<4x8xi1>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.constant"() {value = dense<1.0e+00> : tensor<8xf32>} : () -> tensor<8xf32>
    %2 = "msc.add"(%x, %0) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %3 = "msc.add"(%0, %2) : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "msc.mul"(%3, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %5 = "msc.mul"(%1, %4) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = "msc.sub"(%5, %0) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %7 = "msc.div"(%6, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %8 = "msc.pow"(%7, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %9 = "msc.select"(%c, %8, %8) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %10 = "msc.exp"(%9) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%10) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %c: tensor<4x8xi1>):
    %0 = "msc.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%0) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
