// RUN: msc opt --passes=bias_correction --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%w: tensor<4x2xf32>, %m: tensor<4x2xf32>, %v: tensor<4x2xf32>, %g: tensor<3x2xf32>, %n: tensor<f32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.abs"(%n) : (tensor<f32>) -> tensor<f32>
    %2 = "msc.add"(%1, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %3 = "msc.abs"(%v) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %4 = "msc.constant"() {value = dense<[0, 2, 2]> : tensor<3xi32>} : () -> tensor<3xi32>
    %5 = "msc.constant"() {value = dense<[1, 0, 2]> : tensor<3xi32>} : () -> tensor<3xi32>
    %6:3 = "msc.lazy_adam"(%w, %m, %3, %4, %5, %g, %2) {lr = 1.0e-01 : f32} : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x2xf32>, tensor<f32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>)
    "msc.return"(%6#0, %6#1, %6#2) : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%w: tensor<4x2xf32>, %m: tensor<4x2xf32>, %v: tensor<4x2xf32>, %g: tensor<3x2xf32>, %n: tensor<f32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.abs"(%n) : (tensor<f32>) -> tensor<f32>
    %2 = "msc.add"(%1, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %3 = "msc.abs"(%v) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %4 = "msc.constant"() {value = dense<[0, 2, 2]> : tensor<3xi32>} : () -> tensor<3xi32>
    %5 = "msc.constant"() {value = dense<[1, 0, 2]> : tensor<3xi32>} : () -> tensor<3xi32>
    %6 = "msc.cast"(%2) {dtype = "f64"} : (tensor<f32>) -> tensor<f64>
    %7 = "msc.constant"() {value = dense<-1.0536051565782628e-01> : tensor<f64>} : () -> tensor<f64>
    %8 = "msc.mul"(%6, %7) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %9 = "msc.exp"(%8) : (tensor<f64>) -> tensor<f64>
    %10 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
    %11 = "msc.sub"(%10, %9) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %12 = "msc.cast"(%11) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
    %13 = "msc.reshape"(%12) {shape = [1]} : (tensor<f32>) -> tensor<1xf32>
    %14 = "msc.cast"(%2) {dtype = "f64"} : (tensor<f32>) -> tensor<f64>
    %15 = "msc.constant"() {value = dense<-1.0005003335835344e-03> : tensor<f64>} : () -> tensor<f64>
    %16 = "msc.mul"(%14, %15) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %17 = "msc.exp"(%16) : (tensor<f64>) -> tensor<f64>
    %18 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
    %19 = "msc.sub"(%18, %17) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %20 = "msc.cast"(%19) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
    %21 = "msc.reshape"(%20) {shape = [1]} : (tensor<f32>) -> tensor<1xf32>
    %22 = "msc.concat"(%13, %21) {dim = 0 : i64} : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
    %23:3 = "msc.lazy_adam"(%w, %m, %3, %4, %5, %g, %22) {lr = 1.0e-01 : f32} : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x2xf32>, tensor<2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>)
    "msc.return"(%23#0, %23#1, %23#2) : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
