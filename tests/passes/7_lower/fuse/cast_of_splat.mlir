// RUN: msc opt --passes=fuse --check-numerics %s
// A cast of a splat is a splat: it is stored for no kernel.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf16>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
    %1 = "msc.cast"(%0) {dtype = "f16"} : (tensor<4x8xf32>) -> tensor<4x8xf16>
    %2 = "msc.dropout"(%1, %seed, %step) {rate = 5.0e-01 : f64, salt = 1 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
    %3 = "msc.mul"(%x, %2) : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
    %4 = "msc.dropout"(%1, %seed, %step) {rate = 5.0e-01 : f64, salt = 2 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
    "msc.return"(%3, %4) : (tensor<4x8xf16>, tensor<4x8xf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf16>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.fused"(%seed, %step, %x) ({
    ^bb0(%1: tensor<i64>, %2: tensor<i64>, %3: tensor<4x8xf16>):
      %4 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf16>} : () -> tensor<4x8xf16>
      %5 = "msc.dropout"(%4, %1, %2) {rate = 5.0e-01 : f64, salt = 1 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
      %6 = "msc.mul"(%3, %5) : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
      "msc.yield"(%6) : (tensor<4x8xf16>) -> ()
    }) : (tensor<i64>, tensor<i64>, tensor<4x8xf16>) -> tensor<4x8xf16>
    %7 = "msc.fused"(%seed, %step) ({
    ^bb0(%8: tensor<i64>, %9: tensor<i64>):
      %10 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf16>} : () -> tensor<4x8xf16>
      %11 = "msc.dropout"(%10, %8, %9) {rate = 5.0e-01 : f64, salt = 2 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
      "msc.yield"(%11) : (tensor<4x8xf16>) -> ()
    }) : (tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
    "msc.return"(%0, %7) : (tensor<4x8xf16>, tensor<4x8xf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
