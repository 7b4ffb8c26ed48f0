// RUN: msc opt --passes=expand --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6xf32>, %b: tensor<6xf32>, %d: tensor<4x6xf32>):
    %0:3 = "msc.vjp"(%x, %w, %b, %d) {of = [0], op = "layer_norm", wrt = [0, 1, 2]} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
    "msc.return"(%0#0, %0#1, %0#2) : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) {sym_name = "rows"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x2xf32>, %w: tensor<6xf32>, %b: tensor<6xf32>, %m: tensor<6xf32>, %v: tensor<6xf32>, %d: tensor<4x6x2xf32>):
    %0:3 = "msc.vjp"(%x, %w, %b, %m, %v, %d) {of = [0], op = "batch_norm", wrt = [0, 1, 2]} : (tensor<4x6x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x6x2xf32>) -> (tensor<4x6x2xf32>, tensor<6xf32>, tensor<6xf32>)
    "msc.return"(%0#0, %0#1, %0#2) : (tensor<4x6x2xf32>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) {sym_name = "channels"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6xf32>, %b: tensor<6xf32>, %d: tensor<4x6xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %4 = "msc.constant"() {value = dense<1.0e-05> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.add"(%3, %4) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
    %6 = "msc.rsqrt"(%5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %7 = "msc.mul"(%1, %6) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
    %8 = "msc.mul"(%d, %7) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [0]} : (tensor<4x6xf32>) -> tensor<6xf32>
    %10 = "msc.reduce_sum"(%d) {dims = [0]} : (tensor<4x6xf32>) -> tensor<6xf32>
    %11 = "msc.mul"(%d, %w) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %12 = "msc.mul"(%11, %7) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %13 = "msc.reduce_mean"(%12) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %14 = "msc.reduce_mean"(%11) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %15 = "msc.sub"(%11, %14) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
    %16 = "msc.mul"(%7, %13) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
    %17 = "msc.sub"(%15, %16) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %18 = "msc.mul"(%6, %17) : (tensor<4x1xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%18, %9, %10) : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) {sym_name = "rows"} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x2xf32>, %w: tensor<6xf32>, %b: tensor<6xf32>, %m: tensor<6xf32>, %v: tensor<6xf32>, %d: tensor<4x6x2xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [0, 2], keep_dims = true} : (tensor<4x6x2xf32>) -> tensor<1x6x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x6x2xf32>, tensor<1x6x1xf32>) -> tensor<4x6x2xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x6x2xf32>, tensor<4x6x2xf32>) -> tensor<4x6x2xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [0, 2], keep_dims = true} : (tensor<4x6x2xf32>) -> tensor<1x6x1xf32>
    %4 = "msc.constant"() {value = dense<1.0e-05> : tensor<f32>} : () -> tensor<f32>
    %5 = "msc.add"(%3, %4) : (tensor<1x6x1xf32>, tensor<f32>) -> tensor<1x6x1xf32>
    %6 = "msc.rsqrt"(%5) : (tensor<1x6x1xf32>) -> tensor<1x6x1xf32>
    %7 = "msc.mul"(%1, %6) : (tensor<4x6x2xf32>, tensor<1x6x1xf32>) -> tensor<4x6x2xf32>
    %8 = "msc.mul"(%d, %7) : (tensor<4x6x2xf32>, tensor<4x6x2xf32>) -> tensor<4x6x2xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [0, 2], keep_dims = true} : (tensor<4x6x2xf32>) -> tensor<1x6x1xf32>
    %10 = "msc.reduce_sum"(%d) {dims = [0, 2], keep_dims = true} : (tensor<4x6x2xf32>) -> tensor<1x6x1xf32>
    %11 = "msc.constant"() {value = dense<8.0e+00> : tensor<f32>} : () -> tensor<f32>
    %12 = "msc.reshape"(%9) {shape = [6]} : (tensor<1x6x1xf32>) -> tensor<6xf32>
    %13 = "msc.reshape"(%10) {shape = [6]} : (tensor<1x6x1xf32>) -> tensor<6xf32>
    %14 = "msc.div"(%10, %11) : (tensor<1x6x1xf32>, tensor<f32>) -> tensor<1x6x1xf32>
    %15 = "msc.sub"(%d, %14) : (tensor<4x6x2xf32>, tensor<1x6x1xf32>) -> tensor<4x6x2xf32>
    %16 = "msc.div"(%9, %11) : (tensor<1x6x1xf32>, tensor<f32>) -> tensor<1x6x1xf32>
    %17 = "msc.reshape"(%w) {shape = [1, 6, 1]} : (tensor<6xf32>) -> tensor<1x6x1xf32>
    %18 = "msc.mul"(%6, %17) : (tensor<1x6x1xf32>, tensor<1x6x1xf32>) -> tensor<1x6x1xf32>
    %19 = "msc.mul"(%7, %16) : (tensor<4x6x2xf32>, tensor<1x6x1xf32>) -> tensor<4x6x2xf32>
    %20 = "msc.sub"(%15, %19) : (tensor<4x6x2xf32>, tensor<4x6x2xf32>) -> tensor<4x6x2xf32>
    %21 = "msc.mul"(%18, %20) : (tensor<1x6x1xf32>, tensor<4x6x2xf32>) -> tensor<4x6x2xf32>
    "msc.return"(%21, %12, %13) : (tensor<4x6x2xf32>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) {sym_name = "channels"} : () -> ()
}
