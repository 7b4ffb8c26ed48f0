// RUN: msc opt --passes=evaluate,expand %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>):
    %0:3 = "msc.batch_norm"(%x, %g, %b, %m, %v) : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %1 = "msc.reduce_mean"(%0#0) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%1, %0#1, %0#2) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "b", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "m", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "v", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      results = ["loss", "m", "v"],
      sym_name = "train",
      ties = [-1, 3, 4]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [0], keep_dims = true} : (tensor<8x4xf32>) -> tensor<1x4xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0], keep_dims = true} : (tensor<8x4xf32>) -> tensor<1x4xf32>
    %4 = "msc.reshape"(%0) {shape = [4]} : (tensor<1x4xf32>) -> tensor<4xf32>
    %5 = "msc.constant"() {value = dense<1.0e-01> : tensor<f32>} : () -> tensor<f32>
    %6 = "msc.mul"(%4, %5) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %7 = "msc.constant"() {value = dense<9.0e-01> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.mul"(%m, %7) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %9 = "msc.add"(%8, %6) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %10 = "msc.constant"() {value = dense<1.1428572e+00> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.mul"(%3, %10) : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %12 = "msc.reshape"(%11) {shape = [4]} : (tensor<1x4xf32>) -> tensor<4xf32>
    %13 = "msc.constant"() {value = dense<1.0e-01> : tensor<f32>} : () -> tensor<f32>
    %14 = "msc.mul"(%12, %13) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %15 = "msc.constant"() {value = dense<9.0e-01> : tensor<f32>} : () -> tensor<f32>
    %16 = "msc.mul"(%v, %15) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %17 = "msc.add"(%16, %14) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %18 = "msc.constant"() {value = dense<1.0e-05> : tensor<f32>} : () -> tensor<f32>
    %19 = "msc.add"(%3, %18) : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %20 = "msc.rsqrt"(%19) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %21 = "msc.mul"(%1, %20) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %22 = "msc.reshape"(%g) {shape = [1, 4]} : (tensor<4xf32>) -> tensor<1x4xf32>
    %23 = "msc.mul"(%21, %22) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %24 = "msc.reshape"(%b) {shape = [1, 4]} : (tensor<4xf32>) -> tensor<1x4xf32>
    %25 = "msc.add"(%23, %24) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %26 = "msc.reduce_mean"(%25) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%26, %9, %17) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "b", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "m", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "v", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      results = ["loss", "m", "v"],
      sym_name = "train",
      ties = [-1, 3, 4]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>):
    %0 = "msc.reshape"(%m) {shape = [1, 4]} : (tensor<4xf32>) -> tensor<1x4xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %2 = "msc.reshape"(%v) {shape = [1, 4]} : (tensor<4xf32>) -> tensor<1x4xf32>
    %3 = "msc.constant"() {value = dense<1.0e-05> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.add"(%2, %3) : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %5 = "msc.rsqrt"(%4) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %6 = "msc.mul"(%1, %5) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.reshape"(%g) {shape = [1, 4]} : (tensor<4xf32>) -> tensor<1x4xf32>
    %8 = "msc.mul"(%6, %7) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.reshape"(%b) {shape = [1, 4]} : (tensor<4xf32>) -> tensor<1x4xf32>
    %10 = "msc.add"(%8, %9) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %11 = "msc.reduce_mean"(%10) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%11) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "b", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "m", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "v", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
