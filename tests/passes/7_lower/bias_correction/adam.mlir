// RUN: msc opt --passes=bias_correction --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%w: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>, %g: tensor<4xf32>, %n: tensor<f32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.abs"(%n) : (tensor<f32>) -> tensor<f32>
    %2 = "msc.add"(%1, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %3 = "msc.abs"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    %4:3 = "msc.adamw"(%w, %m, %3, %g, %2) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %5:3 = "msc.adam"(%4#0, %4#1, %4#2, %g, %2) {lr = 1.0e-01 : f32, weight_decay = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %6:3 = "msc.lamb_moments"(%5#0, %5#1, %5#2, %g, %2) {beta1 = 8.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    "msc.return"(%6#0, %6#1, %6#2) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%w: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>, %g: tensor<4xf32>, %n: tensor<f32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.abs"(%n) : (tensor<f32>) -> tensor<f32>
    %2 = "msc.add"(%1, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %3 = "msc.abs"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "msc.cast"(%2) {dtype = "f64"} : (tensor<f32>) -> tensor<f64>
    %5 = "msc.constant"() {value = dense<-1.0536051565782628e-01> : tensor<f64>} : () -> tensor<f64>
    %6 = "msc.mul"(%4, %5) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %7 = "msc.exp"(%6) : (tensor<f64>) -> tensor<f64>
    %8 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
    %9 = "msc.sub"(%8, %7) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %10 = "msc.cast"(%9) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
    %11 = "msc.reshape"(%10) {shape = [1]} : (tensor<f32>) -> tensor<1xf32>
    %12 = "msc.cast"(%2) {dtype = "f64"} : (tensor<f32>) -> tensor<f64>
    %13 = "msc.constant"() {value = dense<-1.0005003335835344e-03> : tensor<f64>} : () -> tensor<f64>
    %14 = "msc.mul"(%12, %13) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %15 = "msc.exp"(%14) : (tensor<f64>) -> tensor<f64>
    %16 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
    %17 = "msc.sub"(%16, %15) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %18 = "msc.cast"(%17) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
    %19 = "msc.reshape"(%18) {shape = [1]} : (tensor<f32>) -> tensor<1xf32>
    %20 = "msc.concat"(%11, %19) {dim = 0 : i64} : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
    %21:3 = "msc.adamw"(%w, %m, %3, %g, %20) {lr = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %22:3 = "msc.adam"(%21#0, %21#1, %21#2, %g, %20) {lr = 1.0e-01 : f32, weight_decay = 1.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %23 = "msc.cast"(%2) {dtype = "f64"} : (tensor<f32>) -> tensor<f64>
    %24 = "msc.constant"() {value = dense<-2.2314353641304868e-01> : tensor<f64>} : () -> tensor<f64>
    %25 = "msc.mul"(%23, %24) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %26 = "msc.exp"(%25) : (tensor<f64>) -> tensor<f64>
    %27 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
    %28 = "msc.sub"(%27, %26) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %29 = "msc.cast"(%28) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
    %30 = "msc.reshape"(%29) {shape = [1]} : (tensor<f32>) -> tensor<1xf32>
    %31 = "msc.cast"(%2) {dtype = "f64"} : (tensor<f32>) -> tensor<f64>
    %32 = "msc.constant"() {value = dense<-1.0005003335835344e-03> : tensor<f64>} : () -> tensor<f64>
    %33 = "msc.mul"(%31, %32) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %34 = "msc.exp"(%33) : (tensor<f64>) -> tensor<f64>
    %35 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
    %36 = "msc.sub"(%35, %34) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %37 = "msc.cast"(%36) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
    %38 = "msc.reshape"(%37) {shape = [1]} : (tensor<f32>) -> tensor<1xf32>
    %39 = "msc.concat"(%30, %38) {dim = 0 : i64} : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
    %40:3 = "msc.lamb_moments"(%22#0, %22#1, %22#2, %g, %39) {beta1 = 8.0e-01 : f32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    "msc.return"(%40#0, %40#1, %40#2) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
