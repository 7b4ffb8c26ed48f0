// RUN: msc opt --passes=micro --set micro_size=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x2xf32>, %w: tensor<3xf32>):
    %0 = "msc.constant"() {value = dense<2.0e+00> : tensor<12xf32>} : () -> tensor<12xf32>
    %1 = "msc.constant"() {value = dense<[1.0e+00, 1.0e+00, 1.0e+00, 1.0e+00, 2.0e+00, 2.0e+00, 2.0e+00, 2.0e+00, 3.0e+00, 3.0e+00, 3.0e+00, 3.0e+00]> : tensor<12xf32>} : () -> tensor<12xf32>
    %2 = "msc.tile"(%w) {repeats = [4]} : (tensor<3xf32>) -> tensor<12xf32>
    %3 = "msc.reshape"(%x) {shape = [1, 12, 2]} : (tensor<4x3x2xf32>) -> tensor<1x12x2xf32>
    %4:3 = "msc.batch_norm"(%3, %2, %0, %0, %0) : (tensor<1x12x2xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<1x12x2xf32>, tensor<12xf32>, tensor<12xf32>)
    %5 = "msc.reshape"(%4#0) {shape = [4, 3, 2]} : (tensor<1x12x2xf32>) -> tensor<4x3x2xf32>
    %6 = "msc.transpose"(%5) {perm = [1, 0, 2]} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
    %7 = "msc.reshape"(%6) {shape = [12, 2]} : (tensor<3x4x2xf32>) -> tensor<12x2xf32>
    %8 = "msc.reshape"(%1) {shape = [12, 1]} : (tensor<12xf32>) -> tensor<12x1xf32>
    %9 = "msc.mul"(%7, %8) : (tensor<12x2xf32>, tensor<12x1xf32>) -> tensor<12x2xf32>
    %10 = "msc.reduce_sum"(%9) {dims = [0, 1]} : (tensor<12x2xf32>) -> tensor<f32>
    "msc.return"(%10) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x2xf32>, %w: tensor<3xf32>, %micro: tensor<i64>):
    %0 = "msc.constant"() {value = dense<2.0e+00> : tensor<12xf32>} : () -> tensor<12xf32>
    %1 = "msc.constant"() {value = dense<[1.0e+00, 1.0e+00, 1.0e+00, 1.0e+00, 2.0e+00, 2.0e+00, 2.0e+00, 2.0e+00, 3.0e+00, 3.0e+00, 3.0e+00, 3.0e+00]> : tensor<12xf32>} : () -> tensor<12xf32>
    %2 = "msc.tile"(%w) {repeats = [4]} : (tensor<3xf32>) -> tensor<12xf32>
    %3 = "msc.reshape"(%x) {shape = [1, 6, 2]} : (tensor<2x3x2xf32>) -> tensor<1x6x2xf32>
    %4 = "msc.tile"(%w) {repeats = [2]} : (tensor<3xf32>) -> tensor<6xf32>
    %5 = "msc.constant"() {value = dense<2.0e+00> : tensor<6xf32>} : () -> tensor<6xf32>
    %6:3 = "msc.batch_norm"(%3, %4, %5, %5, %5) : (tensor<1x6x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<1x6x2xf32>, tensor<6xf32>, tensor<6xf32>)
    %7 = "msc.reshape"(%6#0) {shape = [2, 3, 2]} : (tensor<1x6x2xf32>) -> tensor<2x3x2xf32>
    %8 = "msc.transpose"(%7) {perm = [1, 0, 2]} : (tensor<2x3x2xf32>) -> tensor<3x2x2xf32>
    %9 = "msc.reshape"(%8) {shape = [6, 2]} : (tensor<3x2x2xf32>) -> tensor<6x2xf32>
    %10 = "msc.reshape"(%1) {shape = [12, 1]} : (tensor<12xf32>) -> tensor<12x1xf32>
    %11 = "msc.constant"() {value = dense<[1.0e+00, 1.0e+00, 2.0e+00, 2.0e+00, 3.0e+00, 3.0e+00]> : tensor<6xf32>} : () -> tensor<6xf32>
    %12 = "msc.reshape"(%11) {shape = [6, 1]} : (tensor<6xf32>) -> tensor<6x1xf32>
    %13 = "msc.mul"(%9, %12) : (tensor<6x2xf32>, tensor<6x1xf32>) -> tensor<6x2xf32>
    %14 = "msc.reduce_sum"(%13) {dims = [0, 1]} : (tensor<6x2xf32>) -> tensor<f32>
    "msc.return"(%14) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
